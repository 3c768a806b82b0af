node box {
  gpus 4
  switch s { bandwidth 1 GB/s }
  switch t { ports gpu[0-3] }
  bus b { bandwidth 1 GB/s }
  nic n { latency 1 us }
  link gpu0 <-> gpu1 { latency 1 us }
}
cluster c {
  instance a = box
  fabric ib { latency 1 us }
}
