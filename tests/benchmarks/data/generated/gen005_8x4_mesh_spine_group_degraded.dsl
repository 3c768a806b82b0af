# 4 x h20_mesh8. Generated, seed 5.
# mesh, own NICs, spine, group, degraded

node h20_mesh8 {
  model "H20"
  gpus 8
  reduce 1200 GB/s
  mesh gpu[0-7] { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  nic nic[0-7] { bandwidth 200 Gbps }
  attach gpu[0-7] -> nic[0-7]
}

node h20_mesh8_slow {
  model "H20"
  gpus 8
  reduce 1200 GB/s
  mesh gpu[1-7] { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  link gpu0 <-> gpu[1-6] { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  link gpu0 <-> gpu7 { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  nic nic[0-7] { bandwidth 200 Gbps }
  attach gpu[0-7] -> nic[0-7]
}

cluster gen005_8x4_mesh_spine_group_degraded {
  chunk 1 MB
  instance a0 = h20_mesh8
  instance a1 = h20_mesh8
  instance a2 = h20_mesh8
  instance a3 = h20_mesh8_slow
  fabric leaf0 { join a0.nic*, a1.nic*; latency 1.3 us }
  fabric leaf1 { join a2.nic*, a3.nic*; latency 1.3 us }
  switch spine { ports leaf[0-1]; bandwidth 50 GB/s; latency 0.7 us; kind uplink }
  shared host_a2 150 GB/s { a2.gpu* <-> a0.gpu*, a1.gpu*, a3.gpu* }
}
