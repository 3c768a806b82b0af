node n {
  gpus 2
  mesh gpu* { bandwidth 25/2 GB/s }
}

cluster c {
  instance a = n
}
