import h20

cluster c {
  instance a[0-1] = h20x8
  fabric ib { join a0, a1 }
}
