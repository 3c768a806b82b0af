node box {
  gpus 2
  link gpu0 <-> gpu1 { bandwidth 25 GB/s x 2 }
  nic nic0 { bandwidth 100 Gbps }
  attach gpu[0-1] -> nic0
}
cluster c {
  instance a[0-1] = box
  fabric ib { join *.gpu* }
}
