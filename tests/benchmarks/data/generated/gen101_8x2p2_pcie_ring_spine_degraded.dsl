# 2 x t4_pcie8, 1 x p100_ring2. Generated, seed 101.
# ring, pcie, own NICs, shared NICs, unequal servers, mixed GPUs, spine, degraded

node t4_pcie8 {
  model "T4"
  gpus 8
  reduce 96 GB/s
  switch plx0 { ports gpu[0-3]; bandwidth 15.75 GB/s; latency 1 us; kind pcie }
  switch plx1 { ports gpu[4-7]; bandwidth 15.75 GB/s; latency 1 us; kind pcie }
  bus host { members plx0 <-> plx1; bandwidth 15.75 GB/s; latency 1.5 us; kind upi }
  nic nic[0-1] { bandwidth 25 Gbps }
  attach plx0 -> nic0
  attach plx1 -> nic1
}

node p100_ring2 {
  model "P100"
  gpus 2
  reduce 219 GB/s
  link gpu1 <-> gpu0 { bandwidth 20 GB/s x 4; latency 0.7 us; kind nvlink }
  nic nic[0-1] { bandwidth 25 Gbps }
  attach gpu[0-1] -> nic[0-1]
}

cluster gen101_8x2p2_pcie_ring_spine_degraded {
  chunk 4 MB
  instance a0 = t4_pcie8
  instance a1 = t4_pcie8 { set nic0 { bandwidth 6.25 Gbps } }  # a bad cable
  instance b0 = p100_ring2
  fabric leaf0 { join a0.nic*, a1.nic*; latency 5 us }
  fabric leaf1 { join b0.nic*; latency 5 us }
  switch spine { ports leaf[0-1]; bandwidth 1.562 GB/s; latency 0.7 us; kind uplink }
}
