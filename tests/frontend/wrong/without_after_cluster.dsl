node n {
  gpus 4
  mesh gpu* { bandwidth 25 GB/s }
}

cluster c {
  instance a = n
}
without a.gpu3
mesh a.gpu* { bandwidth 25 GB/s }
