# 1 x h20_mesh16. Generated, seed 1.
# mesh, group, degraded, one server

node h20_mesh16_slow {
  model "H20"
  gpus 16
  reduce 1200 GB/s
  mesh gpu[1-15] { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  link gpu0 <-> gpu[1-14] { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  link gpu0 <-> gpu15 { bandwidth 6.25 GB/s; latency 0.7 us; kind nvlink }
  shared halves 50 GB/s { gpu[0-7] <-> gpu[8-15] }
}

cluster gen001_16_mesh_group_degraded {
  chunk 1 MB
  instance a0 = h20_mesh16_slow
}
