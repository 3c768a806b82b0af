import h20

cluster c {
  instance a = h20x8
  a.nic0.bandwidth = 18 Gbps
}
