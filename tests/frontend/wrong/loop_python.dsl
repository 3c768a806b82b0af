node n {
  gpus 4
  for i in range(4) { link gpu[i] <-> gpu[((i+1) % 4)] { bandwidth 25 GB/s } }
}

cluster c {
  instance a = n
}
