# 1 x v100_switch4, 1 x a100_switch4. Generated, seed 42.
# switch, own NICs, unequal NICs, mixed GPUs, rails, group

node v100_switch4 {
  model "V100"
  gpus 4
  reduce 270 GB/s
  switch nvswitch { ports gpu[0-3]; bandwidth 150 GB/s; latency 0.7 us; kind nvlink }
  nic nic[0-3] { bandwidth 10 Gbps }
  attach gpu[0-3] -> nic[0-3]
}

node a100_switch4 {
  model "A100"
  gpus 4
  reduce 466 GB/s
  switch nvswitch { ports gpu[0-3]; bandwidth 300 GB/s; latency 0.7 us; kind nvlink }
  nic nic[0-3] { bandwidth 100 Gbps }
  attach gpu[0-3] -> nic[0-3]
}

cluster gen042_4p4_switch_rails_group {
  chunk 4 MB
  instance a0 = v100_switch4
  instance b0 = a100_switch4
  fabric rail0 { join *.nic0; latency 2.5 us }
  fabric rail1 { join *.nic1; latency 2.5 us }
  fabric rail2 { join *.nic2; latency 2.5 us }
  fabric rail3 { join *.nic3; latency 2.5 us }
  shared host_a0 2.5 GB/s { a0.gpu* <-> b0.gpu* }
}
