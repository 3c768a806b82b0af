import dgx1

cluster c {
  instance a = dgx1(n = 4)
}
