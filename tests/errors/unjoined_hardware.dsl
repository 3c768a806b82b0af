node box {
  gpus 2
  switch idle { latency 1 us }
  switch s { ports gpu[0-1]; bandwidth 10 GB/s }
  cpu cpu0 { port s 5 GB/s; port t 5 GB/s }
  nic nic0 { bandwidth 1 GB/s }
  attach gpu0 -> nic0
}
cluster c {
  instance a = box
  instance b = box
  fabric ib { join *.nic0 }
  router r { ports ib; bandwidth 1 GB/s }
  set a.cpu0 { bandwidth 3 GB/s }
  set r { send 3 GB/s; bandwidth 4 GB/s }
  attach a.gpu0 -> r
}
