import h20

cluster c {
  chunk 16
  instance a = h20x8
}
