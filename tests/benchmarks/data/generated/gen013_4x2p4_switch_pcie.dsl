# 2 x v100_switch4, 1 x t4_pcie4. Generated, seed 13.
# switch, pcie, shared NICs, unequal NICs, mixed GPUs

node v100_switch4 {
  model "V100"
  gpus 4
  reduce 270 GB/s
  switch nvswitch { ports gpu[0-3]; bandwidth 150 GB/s; latency 0.7 us; kind nvlink }
  nic nic0 { bandwidth 25 Gbps }
  attach gpu[0-3] -> nic0
}

node t4_pcie4 {
  model "T4"
  gpus 4
  reduce 96 GB/s
  switch plx0 { ports gpu[0-3]; bandwidth 15.75 GB/s; latency 1 us; kind pcie }
  nic nic0 { bandwidth 40 Gbps }
  attach plx0 -> nic0
}

cluster gen013_4x2p4_switch_pcie {
  chunk 4 MB
  instance a0 = v100_switch4
  instance a1 = v100_switch4
  instance b0 = t4_pcie4
  fabric net { join *.nic*; latency 5 us }
}
