node n {
  gpus 2
  mesh gpu* { bandwidth 25 gb/s }
}

cluster c {
  instance a = n
}
