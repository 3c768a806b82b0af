node n {
  gpus 2
  mesh gpu* { latency 1 us }
}

cluster c {
  instance a = n
}
