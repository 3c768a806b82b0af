node n {
  gpus -1
  mesh gpu* { bandwidth 25 GB/s }
}

cluster c {
  instance a = n
}
