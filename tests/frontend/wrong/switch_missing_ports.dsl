node n {
  gpus 2
  switch s { bandwidth 450 GB/s }
}

cluster c {
  instance a = n
}
