# 1 x a10_pcie5, 1 x h20_switch2. Generated, seed 6.
# switch, pcie, own NICs, shared NICs, unequal NICs, unequal servers, mixed GPUs

node a10_pcie5 {
  model "A10"
  gpus 5
  reduce 180 GB/s
  switch plx0 { ports gpu[0-4]; bandwidth 31.5 GB/s; latency 1 us; kind pcie }
  nic nic0 { bandwidth 40 Gbps }
  attach plx0 -> nic0
}

node h20_switch2 {
  model "H20"
  gpus 2
  reduce 1200 GB/s
  switch nvswitch { ports gpu[0-1]; bandwidth 450 GB/s; latency 0.7 us; kind nvlink }
  nic nic[0-1] { bandwidth 25 Gbps }
  attach gpu[0-1] -> nic[0-1]
}

cluster gen006_5p2_pcie_switch {
  chunk 16 MB
  instance a0 = a10_pcie5
  instance b0 = h20_switch2
  fabric net { join *.nic*; latency 1.3 us }
}
