node n {
  gpus 2
  mesh gpu* { bandwidth fast }
}

cluster c {
  instance a = n
}
