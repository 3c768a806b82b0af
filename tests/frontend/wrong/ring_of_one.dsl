node n {
  gpus 4
  ring gpu0 { bandwidth 25 GB/s }
}

cluster c {
  instance a = n
}
