node n {
  gpus (2 + 1
  mesh gpu* { bandwidth 25 GB/s }
}

cluster c {
  instance a = n
}
