node n {
  gpus gpu[0-7]
  mesh gpu* { bandwidth 25 GB/s }
}

cluster c {
  instance a = n
}
