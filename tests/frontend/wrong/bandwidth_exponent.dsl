node n {
  gpus 2
  mesh gpu* { bandwidth 25e9 B/s }
}

cluster c {
  instance a = n
}
