import h20

cluster c {
  instance 1 = h20x8
}
