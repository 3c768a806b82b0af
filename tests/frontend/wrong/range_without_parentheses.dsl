node n(k = 4) {
  gpus 4
  mesh gpu[0-k-1] { bandwidth 25 GB/s }
  mesh gpu[0,k/2] { bandwidth 25 GB/s }
}

cluster c {
  instance a = n
}
