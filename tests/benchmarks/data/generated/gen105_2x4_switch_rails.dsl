# 4 x h100_switch2. Generated, seed 105.
# switch, own NICs, rails

node h100_switch2 {
  model "H100"
  gpus 2
  reduce 1005 GB/s
  switch nvswitch { ports gpu[0-1]; bandwidth 450 GB/s; latency 0.7 us; kind nvlink }
  nic nic[0-1] { bandwidth 25 Gbps }
  attach gpu[0-1] -> nic[0-1]
}

cluster gen105_2x4_switch_rails {
  chunk 4 MB
  instance a0 = h100_switch2
  instance a1 = h100_switch2
  instance a2 = h100_switch2
  instance a3 = h100_switch2
  fabric rail0 { join *.nic0; latency 5 us }
  fabric rail1 { join *.nic1; latency 5 us }
}
