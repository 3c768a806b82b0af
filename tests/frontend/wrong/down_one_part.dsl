import h20

cluster c {
  instance a[0-3] = h20x8
  fabric ib { join *.nic* }
  down a0.gpu3
}
