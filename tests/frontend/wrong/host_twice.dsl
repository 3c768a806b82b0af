import h20

cluster c {
  instance a = h20x8 { host "n1" }
  instance b = h20x8 { host "n1" }
  fabric ib { join *.nic* }
}
