# 1 x a100_switch8, 1 x l40s_pcie12, 2 x a10_pcie4. Generated, seed 2.
# switch, pcie, shared NICs, unequal servers, mixed GPUs, group

node a100_switch8 {
  model "A100"
  gpus 8
  reduce 466 GB/s
  switch nvswitch { ports gpu[0-7]; bandwidth 300 GB/s; latency 0.7 us; kind nvlink }
  nic nic0 { bandwidth 100 Gbps }
  bus pcie0 { members gpu[0-7] <-> nic0; bandwidth 31.5 GB/s; kind pcie }
}

node l40s_pcie12 {
  model "L40S"
  gpus 12
  reduce 259 GB/s
  switch plx0 { ports gpu[0-3]; bandwidth 31.5 GB/s; latency 1 us; kind pcie }
  switch plx1 { ports gpu[4-7]; bandwidth 31.5 GB/s; latency 1 us; kind pcie }
  switch plx2 { ports gpu[8-11]; bandwidth 31.5 GB/s; latency 1 us; kind pcie }
  bus host { members plx[0-2]; bandwidth 31.5 GB/s; latency 1.5 us; kind upi }
  nic nic0 { bandwidth 100 Gbps }
  attach plx0 -> nic0
}

node a10_pcie4 {
  model "A10"
  gpus 4
  reduce 180 GB/s
  switch plx0 { ports gpu[0-3]; bandwidth 31.5 GB/s; latency 1 us; kind pcie }
  nic nic0 { bandwidth 100 Gbps }
  attach plx0 -> nic0
}

cluster gen002_8p12p4x2_switch_pcie_group {
  chunk 16 MB
  instance a0 = a100_switch8
  instance b0 = l40s_pcie12
  instance c0 = a10_pcie4
  instance c1 = a10_pcie4
  fabric net { join *.nic*; latency 2.5 us }
  shared host_c0 9.375 GB/s { c0.gpu* <-> a0.gpu*, b0.gpu*, c1.gpu* }
}
