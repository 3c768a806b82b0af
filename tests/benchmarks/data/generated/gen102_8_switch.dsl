# 1 x a100_switch8. Generated, seed 102.
# switch, one server

node a100_switch8 {
  model "A100"
  gpus 8
  reduce 466 GB/s
  switch nvswitch { ports gpu[0-7]; bandwidth 300 GB/s; latency 0.7 us; kind nvlink }
}

cluster gen102_8_switch {
  chunk 1 MB
  instance a0 = a100_switch8
}
