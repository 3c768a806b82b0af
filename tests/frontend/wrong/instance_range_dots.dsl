import h20

cluster c {
  instance a[0..3] = h20x4
  fabric ib { join *.nic* }
  without a0.gpu1
}
