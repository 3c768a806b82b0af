node n {
  gpus 2
  mesh gpu* { bandwidth 25 GB/s x 0 }
}

cluster c {
  instance a = n
}
