# 2 x p100_mesh4. Generated, seed 15.
# mesh, own NICs, rails, degraded

node p100_mesh4 {
  model "P100"
  gpus 4
  reduce 219 GB/s
  mesh gpu[0-3] { bandwidth 20 GB/s; latency 0.7 us; kind nvlink }
  nic nic[0-3] { bandwidth 100 Gbps }
  attach gpu[0-3] -> nic[0-3]
}

node p100_mesh4_slow {
  model "P100"
  gpus 4
  reduce 219 GB/s
  mesh gpu[1-3] { bandwidth 20 GB/s; latency 0.7 us; kind nvlink }
  link gpu0 <-> gpu[1-2] { bandwidth 20 GB/s; latency 0.7 us; kind nvlink }
  link gpu0 <-> gpu3 { bandwidth 10 GB/s; latency 0.7 us; kind nvlink }
  nic nic[0-3] { bandwidth 100 Gbps }
  attach gpu[0-3] -> nic[0-3]
}

cluster gen015_4x2_mesh_rails_degraded {
  chunk 4 MB
  instance a0 = p100_mesh4_slow
  instance a1 = p100_mesh4
  fabric rail0 { join *.nic0; latency 1.3 us }
  fabric rail1 { join *.nic1; latency 1.3 us }
  fabric rail2 { join *.nic2; latency 1.3 us }
  fabric rail3 { join *.nic3; latency 1.3 us }
}
