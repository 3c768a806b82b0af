node n {
  gpus 6
  hypercube gpu* { bandwidth 25 GB/s }
}

cluster c {
  instance a = n
}
