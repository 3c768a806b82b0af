import h20

cluster my-cluster {
  instance a = h20x8
}
