# Two servers of two GPUs each, a NIC for each GPU, one switch between them: a small cluster to try things on.

node server {
  gpus 2
  reduce 600 GB/s
  switch nvswitch { ports gpu[0-1]; bandwidth 200 GB/s; latency 0.7 us; kind nvlink }
  nic nic[0-1] { bandwidth 200 Gbps }
  attach gpu[0-1] -> nic[0-1]
}

cluster lab {
  instance a[0-1] = server
  fabric ib { join *.nic*; latency 1.3 us }
}
