import h20

cluster c {
  instance a[0-1] = h20x8
  fabric l0 { join a0.nic* }
  fabric l1 { join a1.nic* }
  fabric spine { join l0, l1 }
}
