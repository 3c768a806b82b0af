
cluster c {
  instance a = dgx_h100
}
