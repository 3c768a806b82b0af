import h20

cluster c {
  instances a[0-1] = h20x8
}
