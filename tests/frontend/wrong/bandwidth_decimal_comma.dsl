node n {
  gpus 2
  mesh gpu* { bandwidth 12,5 GB/s }
}

cluster c {
  instance a = n
}
