node n {
  gpus 4
  for i in 0-3 { link gpui <-> gpu0 { bandwidth 25 GB/s } }
}

cluster c {
  instance a = n
}
