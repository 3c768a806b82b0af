import h20

cluster c {
  instance a[0-1] = h20x8
  fabric ib { latency 1.3 us }
}
