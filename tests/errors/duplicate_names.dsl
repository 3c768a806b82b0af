node box {
  gpus 2
  gpus 4
  nic nic0 { bandwidth 1 GB/s; bandwidth 2 GB/s }
  switch nic0 { ports gpu[0-1]; bandwidth 1 GB/s }
}
node box { gpus 1 }
cluster c {
  instance a = box
  instance a = box
}
cluster d { instance a = box }
