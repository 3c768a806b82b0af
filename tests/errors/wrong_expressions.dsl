node box(n = 8, rate = 400 Gbps, odd = (1 + )) {
  gpus (n)
  switch s { ports gpu[0-(n-1)]; bandwidth (rate / (n - 8)) }
  nic nic0 { bandwidth (rate + n) }
  nic nic1 { bandwidth (rate * rate) }
  nic nic2 { bandwidth (2 rte) }
  nic nic3 { bandwidth (m * rate) }
  nic nic4 { bandwidth (mean(rate, rate)) }
  link gpu[(n / 3)] <-> gpu1 { bandwidth (min(rate, n)) }
  link gpu[(1 - n)] <-> gpu[k] { bandwidth (rate rate) }
  for n in 0-3 { link gpu0 <-> gpu[n] { bandwidth 1 GB/s } }
  for i in 1-(n - 8) { link gpu0 <-> gpu[i] { bandwidth 1 GB/s } }
  for i in nic* { attach gpu0 -> [i] }
  for i in a, b { attach gpu[(i)] -> nic0 }
}
cluster c { instance a = box(odd = 1) }
