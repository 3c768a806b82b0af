node n {
  gpus 2
  mesh gpu* { bandwidth 25 }
}

cluster c {
  instance a = n
}
