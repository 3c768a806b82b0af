node n {
  gpus 2
  nic[0-1] { bandwidth 25 GB/s }
  attach gpu[0-1] -> nic[0-1]
}

cluster c { instance a = n }
