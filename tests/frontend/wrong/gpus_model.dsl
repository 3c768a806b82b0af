node n {
  gpus 8 x H100
  mesh gpu* { bandwidth 25 GB/s }
}

cluster c {
  instance a = n
}
