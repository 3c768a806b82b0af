node n {
  gpus 2
  nic0 { bandwidth 25 GB/s }
  attach gpu* -> nic0
}

cluster c { instance a = n }
