node n {
  gpus 2
  mesh gpu* { bandwidth 25 GB/s; latency 0.7 }
}

cluster c {
  instance a = n
}
