node n {
  gpus 2
  mesh gpu* { bandwidth inf }
}

cluster c {
  instance a = n
}
