node n {
  gpus 2
  mesh gpu* { bandwidth 25,000 MB/s }
}

cluster c {
  instance a = n
}
