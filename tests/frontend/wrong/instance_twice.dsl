import h20

cluster c {
  instance a = h20x8
  instance a = h20x4
  fabric ib { join *.nic* }
}
