# 1 x v100_switch5, 2 x v100_mesh6. Generated, seed 106.
# mesh, switch, shared NICs, unequal NICs, unequal servers, degraded

node v100_switch5 {
  model "V100"
  gpus 5
  reduce 270 GB/s
  switch nvswitch { ports gpu[0-4]; bandwidth 150 GB/s; latency 0.7 us; kind nvlink }
  nic nic0 { bandwidth 40 Gbps }
  bus pcie0 { members gpu[0-4] <-> nic0; bandwidth 15.75 GB/s; kind pcie }
}

node v100_mesh6 {
  model "V100"
  gpus 6
  reduce 270 GB/s
  mesh gpu[0-5] { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  nic nic0 { bandwidth 10 Gbps }
  attach gpu[0-5] -> nic0
}

cluster gen106_5p6x2_switch_mesh_degraded {
  chunk 1 MB
  instance a0 = v100_switch5
  instance b0 = v100_mesh6 { set nic0 { bandwidth 2.5 Gbps } }  # a bad cable
  instance b1 = v100_mesh6
  fabric net { join *.nic*; latency 5 us }
}
