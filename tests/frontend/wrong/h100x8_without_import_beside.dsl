import h20

cluster c {
  instance a = h100x8
}
