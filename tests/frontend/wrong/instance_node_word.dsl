import h20

cluster c {
  node a = h20x8
}
