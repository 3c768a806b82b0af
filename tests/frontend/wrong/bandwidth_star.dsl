node n {
  gpus 2
  mesh gpu* { bandwidth 25 GB/s * 2 }
}

cluster c {
  instance a = n
}
