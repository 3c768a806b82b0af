node n {
  gpus 2
  mesh gpu* { bandwidth 25 GB/s; latency -1 us }
}

cluster c {
  instance a = n
}
