node n {
  gpus 2
  mesh gpu* { bandwidth 1 GB/s }
  nics { bandwidth 2 GB/s }
  attach gpu* -> s
}

cluster c { instance a = n }
