from h20 import h20x8

cluster c {
  instance a[0-1] = h20x8
  fabric ib { join *.nic*; latency 1.3 us }
}
