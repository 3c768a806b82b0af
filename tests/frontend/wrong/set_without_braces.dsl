import h20

cluster c {
  instance a = h20x8
  set a.nic* bandwidth 18 Gbps
}
