# 2 x h100_mesh3, 1 x h20_ring6. Generated, seed 20.
# mesh, ring, shared NICs, unequal NICs, unequal servers, mixed GPUs

node h100_mesh3 {
  model "H100"
  gpus 3
  reduce 1005 GB/s
  mesh gpu[0-2] { bandwidth 25 GB/s x 9; latency 0.7 us; kind nvlink }
  nic nic0 { bandwidth 25 Gbps }
  bus pcie0 { members gpu[0-2] <-> nic0; bandwidth 63 GB/s; kind pcie }
}

node h20_ring6 {
  model "H20"
  gpus 6
  reduce 1200 GB/s
  link gpu[0-4] <-> gpu[1-5] { bandwidth 25 GB/s x 9; latency 0.7 us; kind nvlink }
  link gpu5 <-> gpu0 { bandwidth 25 GB/s x 9; latency 0.7 us; kind nvlink }
  nic nic0 { bandwidth 40 Gbps }
  attach gpu[0-5] -> nic0
}

cluster gen020_3x2p6_mesh_ring {
  chunk 4 MB
  instance a0 = h100_mesh3
  instance a1 = h100_mesh3
  instance b0 = h20_ring6
  fabric net { join *.nic*; latency 5 us }
}
