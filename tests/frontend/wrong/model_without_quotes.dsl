node n {
  gpus 2
  model H100
  mesh gpu* { bandwidth 25 GB/s }
}

cluster c {
  instance a = n
}
