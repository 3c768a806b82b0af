node n {
  gpus 2
  mesh gpu* { bandwidth 0 GB/s }
}

cluster c {
  instance a = n
}
