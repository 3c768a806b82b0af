# 1 x b200_mesh16. Generated, seed 108.
# mesh, group, degraded, one server

node b200_mesh16_slow {
  model "B200"
  gpus 16
  reduce 2400 GB/s
  mesh gpu[1-15] { bandwidth 50 GB/s; latency 0.7 us; kind nvlink }
  link gpu0 <-> gpu[1-14] { bandwidth 50 GB/s; latency 0.7 us; kind nvlink }
  link gpu0 <-> gpu15 { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  shared halves 100 GB/s { gpu[0-7] <-> gpu[8-15] }
}

cluster gen108_16_mesh_group_degraded {
  chunk 4 MB
  instance a0 = b200_mesh16_slow
}
