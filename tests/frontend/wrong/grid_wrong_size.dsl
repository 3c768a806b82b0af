node n {
  gpus 8
  grid gpu* 3x3 { bandwidth 25 GB/s }
}

cluster c {
  instance a = n
}
