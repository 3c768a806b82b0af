node n {
  gpus 2
  mesh gpu* { bandwidth 25 GB/s }
  nic nic0 { bandwidth 400 Gbps }
  attach nic0 -> gpu*
}

cluster c {
  instance a = n
}
