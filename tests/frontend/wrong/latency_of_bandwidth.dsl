node n {
  gpus 2
  mesh gpu* { bandwidth 25 GB/s; latency 25 GB/s }
}

cluster c {
  instance a = n
}
