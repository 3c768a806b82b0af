node n {
  gpus 2
  switch s { ports gpu*; bandwidth 450 GB/s; multicast true }
}

cluster c {
  instance a = n
}
