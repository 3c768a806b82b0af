node n {
  gpus 2
  mesh gpu* { bandwidth (25 GB/s + 1 us) }
}

cluster c {
  instance a = n
}
