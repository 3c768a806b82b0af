# 1 x a100_mesh8, 1 x v100_mesh4. Generated, seed 4.
# mesh, shared NICs, unequal servers, mixed GPUs, rails, group

node a100_mesh8 {
  model "A100"
  gpus 8
  reduce 466 GB/s
  mesh gpu[0-7] { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  nic nic[0-1] { bandwidth 40 Gbps }
  attach gpu[0-3] -> nic0
  attach gpu[4-7] -> nic1
}

node v100_mesh4 {
  model "V100"
  gpus 4
  reduce 270 GB/s
  mesh gpu[0-3] { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  nic nic[0-1] { bandwidth 40 Gbps }
  attach gpu[0-1] -> nic0
  attach gpu[2-3] -> nic1
}

cluster gen004_8p4_mesh_rails_group {
  chunk 1 MB
  instance a0 = a100_mesh8
  instance b0 = v100_mesh4
  fabric rail0 { join *.nic0; latency 1.3 us }
  fabric rail1 { join *.nic1; latency 1.3 us }
  shared host_b0 7.5 GB/s { b0.gpu* <-> a0.gpu* }
}
