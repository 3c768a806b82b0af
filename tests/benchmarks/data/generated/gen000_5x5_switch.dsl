# 5 x b200_switch5. Generated, seed 0.
# switch, shared NICs

node b200_switch5 {
  model "B200"
  gpus 5
  reduce 2400 GB/s
  switch nvswitch { ports gpu[0-4]; bandwidth 900 GB/s; latency 0.7 us; kind nvlink }
  nic nic0 { bandwidth 40 Gbps }
  bus pcie0 { members gpu[0-4] <-> nic0; bandwidth 63 GB/s; kind pcie }
}

cluster gen000_5x5_switch {
  chunk 16 MB
  instance a0 = b200_switch5
  instance a1 = b200_switch5
  instance a2 = b200_switch5
  instance a3 = b200_switch5
  instance a4 = b200_switch5
  fabric net { join *.nic*; latency 1.3 us }
}
