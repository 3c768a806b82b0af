node n {
  gpus 2
  nvswitch s { ports gpu*; bandwidth 450 GB/s }
}

cluster c {
  instance a = n
}
