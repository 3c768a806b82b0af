node n {
  gpus 3
  link gpu0 <-> gpu1 { bandwidth 25 GB/s x 2 }
  switch s { ports gpu[0-2]; bandwidth 50 GB/s }
  nic nic0 { bandwidth 25 GB/s }
  attach gpu* -> nic0
}

cluster c {
  instance a[0-1] = n
  fabric ib { join *.nic* }
  without a7
  down a0.gpu0 <-> a0.gpu2
  degrade ib to 50 %
  degrade a0.nic0 to 50 GB/s
  degrade a0.s to 150 %
  degrade a0.gpu0 <-> a0.gpu1 to 18
  degrade a0.gpu0 <-> a0.nic0 to 50 %
}
