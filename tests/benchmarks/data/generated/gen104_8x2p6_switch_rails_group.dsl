# 2 x v100_switch8, 1 x h100_switch6. Generated, seed 104.
# switch, shared NICs, unequal servers, mixed GPUs, rails, group

node v100_switch8 {
  model "V100"
  gpus 8
  reduce 270 GB/s
  switch nvswitch { ports gpu[0-7]; bandwidth 150 GB/s; latency 0.7 us; kind nvlink }
  nic nic[0-1] { bandwidth 40 Gbps }
  bus pcie0 { members gpu[0-3] <-> nic0; bandwidth 15.75 GB/s; kind pcie }
  bus pcie1 { members gpu[4-7] <-> nic1; bandwidth 15.75 GB/s; kind pcie }
}

node h100_switch6 {
  model "H100"
  gpus 6
  reduce 1005 GB/s
  switch nvswitch { ports gpu[0-5]; bandwidth 450 GB/s; latency 0.7 us; kind nvlink }
  nic nic[0-1] { bandwidth 40 Gbps }
  attach gpu[0-2] -> nic0
  attach gpu[3-5] -> nic1
}

cluster gen104_8x2p6_switch_rails_group {
  chunk 4 MB
  instance a0 = v100_switch8
  instance a1 = v100_switch8
  instance b0 = h100_switch6
  fabric rail0 { join *.nic0; latency 5 us }
  fabric rail1 { join *.nic1; latency 5 us }
  shared host_a1 5 GB/s { a1.gpu* <-> a0.gpu*, b0.gpu* }
}
