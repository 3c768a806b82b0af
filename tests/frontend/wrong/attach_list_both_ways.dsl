node n {
  gpus 2
  nic nic0 { bandwidth 25 GB/s }
  attach gpu0, gpu1 <-> nic0
}

cluster c {
  instance a = n
}
