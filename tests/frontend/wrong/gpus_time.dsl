node n {
  gpus (2 us)
  mesh gpu* { bandwidth 25 GB/s }
}

cluster c {
  instance a = n
}
