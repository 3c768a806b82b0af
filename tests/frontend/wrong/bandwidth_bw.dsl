node n {
  gpus 2
  mesh gpu* { bw 25 GB/s }
}

cluster c {
  instance a = n
}
