node n {
  gpus 2
  mesh gpu* { bandwidth 25 G }
}

cluster c {
  instance a = n
}
