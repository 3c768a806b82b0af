import h20

cluster = {
  instance a = h20x8
}
