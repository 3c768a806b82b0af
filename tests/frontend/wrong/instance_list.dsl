import h20

cluster c {
  instance a, b = h20x8
}
