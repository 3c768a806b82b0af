# 2 x h20_ring8. Generated, seed 11.
# ring, shared NICs, degraded

node h20_ring8 {
  model "H20"
  gpus 8
  reduce 1200 GB/s
  link gpu[0-6] <-> gpu[1-7] { bandwidth 25 GB/s x 9; latency 0.7 us; kind nvlink }
  link gpu7 <-> gpu0 { bandwidth 25 GB/s x 9; latency 0.7 us; kind nvlink }
  nic nic0 { bandwidth 40 Gbps }
  attach gpu[0-7] -> nic0
}

cluster gen011_8x2_ring_degraded {
  chunk 1 MB
  instance a0 = h20_ring8 { set nic0 { bandwidth 10 Gbps } }  # a bad cable
  instance a1 = h20_ring8
  fabric net { join *.nic*; latency 1.3 us }
}
