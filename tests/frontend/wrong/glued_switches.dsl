node n {
  gpus 2
  switches { ports gpu*; bandwidth 1 GB/s }
}

cluster c { instance a = n }
