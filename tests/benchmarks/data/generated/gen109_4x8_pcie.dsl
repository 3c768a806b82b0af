# 8 x t4_pcie4. Generated, seed 109.
# pcie, shared NICs

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

cluster gen109_4x8_pcie {
  chunk 4 MB
  instance a0 = t4_pcie4
  instance a1 = t4_pcie4
  instance a2 = t4_pcie4
  instance a3 = t4_pcie4
  instance a4 = t4_pcie4
  instance a5 = t4_pcie4
  instance a6 = t4_pcie4
  instance a7 = t4_pcie4
  fabric net { join *.nic*; latency 1.3 us }
}
