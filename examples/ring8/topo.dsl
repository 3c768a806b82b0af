# Eight GPUs in a bidirectional ring: the smallest topology where distance decides.

node ring8 {
  gpus 8
  reduce 270 GB/s
  link gpu[0-7] <-> gpu[1-7,0] { bandwidth 25 GB/s; latency 0.7 us }
}

cluster ring8 {
  instance a = ring8
}
