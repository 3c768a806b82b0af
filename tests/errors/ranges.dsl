node box {
  gpus 2
  link gpu[0-999999] <-> gpu1 { bandwidth 25 GB/s }
  link gpu[1-0] <-> gpu1 { bandwidth 25 GB/s }
  link gpu[] <-> gpu1 { bandwidth 25 GB/s }
  nic nic* { bandwidth 25 GB/s }
}
cluster c { instance a = box }
