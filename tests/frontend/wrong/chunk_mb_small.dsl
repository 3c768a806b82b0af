import h20

cluster c {
  chunk 16mb
  instance a = h20x8
}
