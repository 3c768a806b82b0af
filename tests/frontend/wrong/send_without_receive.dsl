node n {
  gpus 2
  mesh gpu* { send 25 GB/s }
}

cluster c {
  instance a = n
}
