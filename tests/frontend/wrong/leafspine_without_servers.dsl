import h20

cluster c {
  instance a[0-3] = h20x8
  leafspine l { join *.nic*; spines 2; uplink 200 GB/s }
}
