import h20
node direct {
  gpus 2
  switch s { port gpu0 1 GB/s; bandwidth 2 GB/s }
  switch alone { }
  nic nic0 { bandwidth 2 GB/s; send 1 GB/s }
  nic nic1 { send 1 GB/s }
  nic nic2 { send 1 GB/s; receive 2 GB/s }
  link gpu0 -> gpu1 { send 1 GB/s; receive 2 GB/s }
  mesh gpu[0-1] { send 1 GB/s; receive 2 GB/s }
  bus b { members gpu[0-1]; send 1 GB/s; receive 2 GB/s }
  attach gpu0 -> nic[0-2]
}
pod twin { instance a[0-1] = h20x4; fabric f { join *.nic* } }
cluster c {
  instance a = h20x4 { detach gpu0 -> nic3; host "one" }
  instance b[0-1] = h20x4 { host "one"; host "two" }
  instance d[0-1] = h20x4 { host "two[1-3]" }
  instance e = twin { host "three" }
  instance f = h20x4 { host "o n e" }
  instance g = h20x4 { host "one" }
  instance x = direct
  fabric ib { join *.nic* }
  wan a.nic0 <-> b0.nic0 { bandwidth 1 GB/s; length 3 us }
}
