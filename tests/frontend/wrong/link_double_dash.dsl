node n {
  gpus 2
  link gpu0 -- gpu1 { bandwidth 25 GB/s }
}

cluster c {
  instance a = n
}
