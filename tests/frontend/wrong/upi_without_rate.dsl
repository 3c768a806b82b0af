node n {
  gpus 2
  cpu cpu[0-1] { ports gpu[0-1]; bandwidth 25 GB/s }
  upi cpu0 <-> cpu1 { latency 1 us }
}

cluster c {
  instance a = n
}
