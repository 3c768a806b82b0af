import h20

cluster c {
  instance a[0-3] = h20x8
  fabric ib { join *.nic* }
  degrade a0.nic* to 150 %
}
