node n {
  gpu 8
  mesh gpu* { bandwidth 25 GB/s }
}

cluster c {
  instance a = n
}
