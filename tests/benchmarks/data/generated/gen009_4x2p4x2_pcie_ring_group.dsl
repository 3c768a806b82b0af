# 2 x a10_pcie4, 2 x v100_ring4. Generated, seed 9.
# ring, pcie, own NICs, shared NICs, unequal NICs, mixed GPUs, group

node a10_pcie4 {
  model "A10"
  gpus 4
  reduce 180 GB/s
  switch plx0 { ports gpu[0-1]; bandwidth 31.5 GB/s; latency 1 us; kind pcie }
  switch plx1 { ports gpu[2-3]; bandwidth 31.5 GB/s; latency 1 us; kind pcie }
  bus host { members plx0 <-> plx1; bandwidth 31.5 GB/s; latency 1.5 us; kind upi }
  nic nic[0-1] { bandwidth 100 Gbps }
  attach plx0 -> nic0
  attach plx1 -> nic1
}

node v100_ring4 {
  model "V100"
  gpus 4
  reduce 270 GB/s
  link gpu[0-2] <-> gpu[1-3] { bandwidth 25 GB/s x 3; latency 0.7 us; kind nvlink }
  link gpu3 <-> gpu0 { bandwidth 25 GB/s x 3; latency 0.7 us; kind nvlink }
  nic nic[0-3] { bandwidth 200 Gbps }
  attach gpu[0-3] -> nic[0-3]
}

cluster gen009_4x2p4x2_pcie_ring_group {
  chunk 4 MB
  instance a0 = a10_pcie4
  instance a1 = a10_pcie4
  instance b0 = v100_ring4
  instance b1 = v100_ring4
  fabric net { join *.nic*; latency 1.3 us }
  shared host_a0 18.75 GB/s { a0.gpu* <-> a1.gpu*, b0.gpu*, b1.gpu* }
}
