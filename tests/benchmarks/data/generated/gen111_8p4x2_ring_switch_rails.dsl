# 1 x h20_ring8, 2 x a100_switch4. Generated, seed 111.
# switch, ring, shared NICs, unequal NICs, unequal servers, mixed GPUs, rails

node h20_ring8 {
  model "H20"
  gpus 8
  reduce 1200 GB/s
  link gpu[0-6] <-> gpu[1-7] { bandwidth 25 GB/s x 9; latency 0.7 us; kind nvlink }
  link gpu7 <-> gpu0 { bandwidth 25 GB/s x 9; latency 0.7 us; kind nvlink }
  nic nic[0-1] { bandwidth 400 Gbps }
  attach gpu[0-3] -> nic0
  attach gpu[4-7] -> nic1
}

node a100_switch4 {
  model "A100"
  gpus 4
  reduce 466 GB/s
  switch nvswitch { ports gpu[0-3]; bandwidth 300 GB/s; latency 0.7 us; kind nvlink }
  nic nic[0-1] { bandwidth 200 Gbps }
  attach gpu[0-1] -> nic0
  attach gpu[2-3] -> nic1
}

cluster gen111_8p4x2_ring_switch_rails {
  chunk 4 MB
  instance a0 = h20_ring8
  instance b0 = a100_switch4
  instance b1 = a100_switch4
  fabric rail0 { join *.nic0; latency 1.3 us }
  fabric rail1 { join *.nic1; latency 1.3 us }
}
