import h20

Cluster c {
  instance a = h20x8
}
