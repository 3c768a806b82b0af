node n {
  gpus 2
  mesh gpu* { bandwidth 25 GB/s; alpha 0.7 us }
}

cluster c {
  instance a = n
}
