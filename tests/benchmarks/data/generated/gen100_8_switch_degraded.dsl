# 1 x h20_switch8. Generated, seed 100.
# switch, degraded, one server

node h20_switch8_slow {
  model "H20"
  gpus 8
  reduce 1200 GB/s
  switch nvswitch { ports gpu[0-6]; bandwidth 450 GB/s; latency 0.7 us; kind nvlink }
  link gpu7 <-> nvswitch { bandwidth 225 GB/s; kind nvlink }
}

cluster gen100_8_switch_degraded {
  chunk 16 MB
  instance a0 = h20_switch8_slow
}
