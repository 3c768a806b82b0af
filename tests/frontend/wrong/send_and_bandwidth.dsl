node n {
  gpus 2
  mesh gpu* { bandwidth 25 GB/s; send 20 GB/s; receive 20 GB/s }
}

cluster c {
  instance a = n
}
