node n {
  gpus 2
  mesh gpu* { bandwith 25 GB/s }
}

cluster c {
  instance a = n
}
