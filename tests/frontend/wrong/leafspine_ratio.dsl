import h20

cluster c {
  instance a[0-3] = h20x8
  leafspine l { join *.nic*; servers 2; spines 2; oversubscription 2:1 }
}
