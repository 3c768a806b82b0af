node n {
  gpus 2
  mseh gpu* { bandwidth 25 GB/s }
}

cluster c {
  instance a = n
}
