import h20

cluster c {
  chunk = 16 MB
  instance a = h20x8
}
