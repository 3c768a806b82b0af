# 3 x t4_pcie4, 1 x a100_switch4. Generated, seed 107.
# switch, pcie, shared NICs, unequal NICs, mixed GPUs, rails

node t4_pcie4 {
  model "T4"
  gpus 4
  reduce 96 GB/s
  switch plx0 { ports gpu[0-1]; bandwidth 15.75 GB/s; latency 1 us; kind pcie }
  switch plx1 { ports gpu[2-3]; bandwidth 15.75 GB/s; latency 1 us; kind pcie }
  bus host { members plx0 <-> plx1; bandwidth 15.75 GB/s; latency 1.5 us; kind upi }
  nic nic[0-1] { bandwidth 25 Gbps }
  attach plx0 -> nic0
  attach plx1 -> nic1
}

node a100_switch4 {
  model "A100"
  gpus 4
  reduce 466 GB/s
  switch nvswitch { ports gpu[0-3]; bandwidth 300 GB/s; latency 0.7 us; kind nvlink }
  nic nic[0-1] { bandwidth 40 Gbps }
  bus pcie0 { members gpu[0-1] <-> nic0; bandwidth 31.5 GB/s; kind pcie }
  bus pcie1 { members gpu[2-3] <-> nic1; bandwidth 31.5 GB/s; kind pcie }
}

cluster gen107_4x3p4_pcie_switch_rails {
  chunk 4 MB
  instance a0 = t4_pcie4
  instance a1 = t4_pcie4
  instance a2 = t4_pcie4
  instance b0 = a100_switch4
  fabric rail0 { join *.nic0; latency 1.3 us }
  fabric rail1 { join *.nic1; latency 1.3 us }
  switch spine { ports rail[0-1]; bandwidth 6.25 GB/s; latency 0.7 us; kind uplink }
}
