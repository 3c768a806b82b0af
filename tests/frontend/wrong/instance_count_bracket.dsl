import h20

cluster c {
  instance a[2] = h20x8
  instance b[2] = h20x8
}
