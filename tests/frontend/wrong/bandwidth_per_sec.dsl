node n {
  gpus 2
  mesh gpu* { bandwidth 25 GB/sec }
}

cluster c {
  instance a = n
}
