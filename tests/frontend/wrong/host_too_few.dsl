import h20

cluster c {
  instance a[0-3] = h20x8 { host "node[10-11]" }
  fabric ib { join *.nic* }
}
