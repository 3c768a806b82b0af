import h100

cluster c {
  instance a = h100
}
