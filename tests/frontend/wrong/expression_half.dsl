node n {
  gpus (5 / 2)
  mesh gpu* { bandwidth 25 GB/s }
}

cluster c {
  instance a = n
}
