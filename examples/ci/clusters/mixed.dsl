# A newer server beside an older one: 4 + 2 GPUs, one NIC for each, the older ones at half the rate.

node new {
  gpus 4
  reduce 1200 GB/s
  switch nvswitch { ports gpu[0-3]; bandwidth 450 GB/s; latency 0.7 us; kind nvlink }
  nic nic[0-3] { bandwidth 400 Gbps }
  attach gpu[0-3] -> nic[0-3]
}

node old {
  gpus 2
  reduce 600 GB/s
  link gpu0 <-> gpu1 { bandwidth 50 GB/s; latency 0.7 us; kind nvlink }
  nic nic[0-1] { bandwidth 200 Gbps }
  attach gpu[0-1] -> nic[0-1]
}

cluster mixed {
  instance a = new
  instance b = old
  fabric ib { join *.nic*; latency 1.3 us }
}
