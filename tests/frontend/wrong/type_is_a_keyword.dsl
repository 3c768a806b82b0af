import h20

cluster c {
  instance a = node
}
