node n {
  gpus 2
  mesh gpu* { bandwidth 2 x 25 GB/s }
}

cluster c {
  instance a = n
}
