# 1 x a100_mesh2, 1 x h100_mesh3, 1 x a100_mesh12. Generated, seed 7.
# mesh, own NICs, shared NICs, unequal NICs, unequal servers, mixed GPUs, spine, degraded

node a100_mesh2_slow {
  model "A100"
  gpus 2
  reduce 466 GB/s
  link gpu0 <-> gpu1 { bandwidth 75 GB/s; latency 0.7 us; kind nvlink }
  nic nic[0-1] { bandwidth 200 Gbps }
  attach gpu[0-1] -> nic[0-1]
}

node h100_mesh3 {
  model "H100"
  gpus 3
  reduce 1005 GB/s
  mesh gpu[0-2] { bandwidth 25 GB/s x 9; latency 0.7 us; kind nvlink }
  nic nic[0-2] { bandwidth 25 Gbps }
  attach gpu[0-2] -> nic[0-2]
}

node a100_mesh12 {
  model "A100"
  gpus 12
  reduce 466 GB/s
  mesh gpu[0-11] { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  nic nic[0-1] { bandwidth 200 Gbps }
  attach gpu[0-5] -> nic0
  attach gpu[6-11] -> nic1
}

cluster gen007_2p3p12_mesh_spine_degraded {
  chunk 16 MB
  instance a0 = a100_mesh2_slow
  instance b0 = h100_mesh3
  instance c0 = a100_mesh12
  fabric leaf0 { join a0.nic*, b0.nic*; latency 1.3 us }
  fabric leaf1 { join c0.nic*; latency 1.3 us }
  switch spine { ports leaf[0-1]; bandwidth 25 GB/s; latency 0.7 us; kind uplink }
}
