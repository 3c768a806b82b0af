node n {
  gpus 2
  nic nic0 { ports gpu*; bandwidth 400 Gbps }
}

cluster c {
  instance a = n
}
