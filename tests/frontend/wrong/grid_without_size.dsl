node n {
  gpus 8
  grid gpu* { bandwidth 25 GB/s }
}

cluster c {
  instance a = n
}
