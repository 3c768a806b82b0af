node n {
  gpus 8
  link gpu[0-2] <-> gpu[3-4] { bandwidth 25 GB/s }
}

cluster c {
  instance a = n
}
