import h20

cluster c {
  instance a = h20x8 { hosts "x" }
}
