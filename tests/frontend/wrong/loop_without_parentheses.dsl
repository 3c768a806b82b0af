node n {
  gpus 4
  for i in 0-3 { link gpu[i] <-> gpu[i+1] { bandwidth 25 GB/s } }
}

cluster c {
  instance a = n
}
