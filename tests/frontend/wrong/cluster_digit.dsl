import h20

cluster 4p8 {
  instance a = h20x8
}
