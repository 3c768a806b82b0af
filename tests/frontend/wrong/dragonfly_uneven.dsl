import h20

cluster c {
  instance a[0-3] = h20x8
  dragonfly d { join *.nic*; groups 3; routers 4; bandwidth 50 GB/s; global 25 GB/s }
}
