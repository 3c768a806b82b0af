node n {
  gpus 8
  torus gpu* 2x4 { latency 1 us }
}

cluster c {
  instance a = n
}
