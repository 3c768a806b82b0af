cluster c {
  instance a = h100x8
}
