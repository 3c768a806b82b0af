import h20

cluster c {
  instance a = 2 x h20x8
}
