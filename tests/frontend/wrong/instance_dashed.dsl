import h20

cluster c {
  instance node-1 = h20x8
}
