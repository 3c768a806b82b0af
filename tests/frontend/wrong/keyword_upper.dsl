import h20

cluster c {
  INSTANCE a = h20x8
}
