import h20

cluster h20.c {
  instance a = h20x8
}
