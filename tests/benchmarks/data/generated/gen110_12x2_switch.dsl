# 2 x h20_switch12. Generated, seed 110.
# switch, shared NICs

node h20_switch12 {
  model "H20"
  gpus 12
  reduce 1200 GB/s
  switch nvswitch { ports gpu[0-11]; bandwidth 450 GB/s; latency 0.7 us; kind nvlink }
  nic nic0 { bandwidth 100 Gbps }
  attach gpu[0-11] -> nic0
}

cluster gen110_12x2_switch {
  chunk 4 MB
  instance a0 = h20_switch12
  instance a1 = h20_switch12
  fabric net { join *.nic*; latency 5 us }
}
