node n {
  gpus ()
  mesh gpu* { bandwidth 25 GB/s }
}

cluster c {
  instance a = n
}
