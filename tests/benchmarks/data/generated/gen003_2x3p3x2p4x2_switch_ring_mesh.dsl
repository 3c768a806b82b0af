# 3 x h20_switch2, 2 x h100_ring3, 2 x p100_mesh4. Generated, seed 3.
# mesh, switch, ring, shared NICs, unequal NICs, unequal servers, mixed GPUs

node h20_switch2 {
  model "H20"
  gpus 2
  reduce 1200 GB/s
  switch nvswitch { ports gpu[0-1]; bandwidth 450 GB/s; latency 0.7 us; kind nvlink }
  nic nic0 { bandwidth 200 Gbps }
  attach gpu[0-1] -> nic0
}

node h100_ring3 {
  model "H100"
  gpus 3
  reduce 1005 GB/s
  link gpu[0-1] <-> gpu[1-2] { bandwidth 25 GB/s x 9; latency 0.7 us; kind nvlink }
  link gpu2 <-> gpu0 { bandwidth 25 GB/s x 9; latency 0.7 us; kind nvlink }
  nic nic0 { bandwidth 40 Gbps }
  attach gpu[0-2] -> nic0
}

node p100_mesh4 {
  model "P100"
  gpus 4
  reduce 219 GB/s
  mesh gpu[0-3] { bandwidth 20 GB/s; latency 0.7 us; kind nvlink }
  nic nic0 { bandwidth 100 Gbps }
  attach gpu[0-3] -> nic0
}

cluster gen003_2x3p3x2p4x2_switch_ring_mesh {
  chunk 16 MB
  instance a0 = h20_switch2
  instance a1 = h20_switch2
  instance a2 = h20_switch2
  instance b0 = h100_ring3
  instance b1 = h100_ring3
  instance c0 = p100_mesh4
  instance c1 = p100_mesh4
  fabric net { join *.nic*; latency 5 us }
}
