# 1 x b200_ring2, 1 x a100_switch3. Generated, seed 47.
# switch, ring, shared NICs, unequal NICs, unequal servers, mixed GPUs

node b200_ring2 {
  model "B200"
  gpus 2
  reduce 2400 GB/s
  link gpu1 <-> gpu0 { bandwidth 50 GB/s x 18; latency 0.7 us; kind nvlink }
  nic nic0 { bandwidth 100 Gbps }
  attach gpu[0-1] -> nic0
}

node a100_switch3 {
  model "A100"
  gpus 3
  reduce 466 GB/s
  switch nvswitch { ports gpu[0-2]; bandwidth 300 GB/s; latency 0.7 us; kind nvlink }
  nic nic0 { bandwidth 40 Gbps }
  bus pcie0 { members gpu[0-2] <-> nic0; bandwidth 31.5 GB/s; kind pcie }
}

cluster gen047_2p3_ring_switch {
  chunk 1 MB
  instance a0 = b200_ring2
  instance b0 = a100_switch3
  fabric net { join *.nic*; latency 1.3 us }
}
