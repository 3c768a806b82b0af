node n {
  gpus 2
  mesh gpu* { bandwidth 25_000 MB/s }
}

cluster c {
  instance a = n
}
