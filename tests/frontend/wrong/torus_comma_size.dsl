node n {
  gpus 8
  torus gpu* 2,4 { bandwidth 25 GB/s }
}

cluster c {
  instance a = n
}
