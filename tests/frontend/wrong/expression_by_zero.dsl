node n {
  gpus (2 / 0)
  mesh gpu* { bandwidth 25 GB/s }
}

cluster c {
  instance a = n
}
