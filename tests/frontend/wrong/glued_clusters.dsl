import h20

clusters {
  instance a = h20x8
}
