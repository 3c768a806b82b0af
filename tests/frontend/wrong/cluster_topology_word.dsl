import h20

topology c {
  instance a = h20x8
}
