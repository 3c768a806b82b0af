node n {
  gpus 2
  mesh gpu* { bandwidth 25 GB/s; bandwidth 20 GB/s }
}

cluster c {
  instance a = n
}
