import h20

cluster c {
  instance h20x8 a
}
