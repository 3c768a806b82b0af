# 2 x b200_switch4. Generated, seed 103.
# switch, own NICs, spine, group, degraded

node b200_switch4 {
  model "B200"
  gpus 4
  reduce 2400 GB/s
  switch nvswitch { ports gpu[0-3]; bandwidth 900 GB/s; latency 0.7 us; kind nvlink }
  nic nic[0-3] { bandwidth 200 Gbps }
  attach gpu[0-3] -> nic[0-3]
}

cluster gen103_4x2_switch_spine_group_degraded {
  chunk 16 MB
  instance a0 = b200_switch4 { set nic0 { bandwidth 20 Gbps } }  # a bad cable
  instance a1 = b200_switch4
  fabric leaf0 { join a0.nic*; latency 5 us }
  fabric leaf1 { join a1.nic*; latency 5 us }
  switch spine { ports leaf[0-1]; bandwidth 25 GB/s; latency 0.7 us; kind uplink }
  shared host_a0 75 GB/s { a0.gpu* <-> a1.gpu* }
}
