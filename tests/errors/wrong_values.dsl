node box(n = 8, rate = 400 Gbps) {
  gpus (n / 3)
  switch s { ports gpu0; bandwidth (n) x (n / 3) }
  nic nic0 { bandwidth (rate - 50 GB/s) }
  attach gpu0 -> nic0 { latency (rate / n) }
}
cluster c { instance a = box }
