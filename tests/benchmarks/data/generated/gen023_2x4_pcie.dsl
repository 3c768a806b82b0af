# 4 x a10_pcie2. Generated, seed 23.
# pcie, shared NICs

node a10_pcie2 {
  model "A10"
  gpus 2
  reduce 180 GB/s
  switch plx0 { ports gpu[0-1]; bandwidth 31.5 GB/s; latency 1 us; kind pcie }
  nic nic0 { bandwidth 10 Gbps }
  attach plx0 -> nic0
}

cluster gen023_2x4_pcie {
  chunk 1 MB
  instance a0 = a10_pcie2
  instance a1 = a10_pcie2
  instance a2 = a10_pcie2
  instance a3 = a10_pcie2
  fabric net { join *.nic*; latency 5 us }
}
