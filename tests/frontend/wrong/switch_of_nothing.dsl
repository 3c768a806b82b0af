node n {
  gpus 4
  mesh gpu* { bandwidth 25 GB/s }
}

cluster c {
  instance a = n
  switch s { bandwidth 100 GB/s }
}
