node n {
  gpus 2
  mesh gpu* { bandwidth 16 GT/s }
}

cluster c {
  instance a = n
}
