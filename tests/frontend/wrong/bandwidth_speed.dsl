node n {
  gpus 2
  mesh gpu* { speed 25 GB/s }
}

cluster c {
  instance a = n
}
