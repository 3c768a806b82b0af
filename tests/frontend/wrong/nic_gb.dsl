node n {
  gpus 2
  mesh gpu* { bandwidth 25 GB/s }
  nic nic0 { bandwidth 400 Gb }
  attach gpu* -> nic0
}

cluster c {
  instance a = n
}
