# A group over two pods belongs to neither.
node box {
  gpus 2
  link gpu0 <-> gpu1 { bandwidth 25 GB/s }
  nic nic { bandwidth 100 Gbps }
  attach gpu[0-1] -> nic
}

cluster pair {
  instance a[0-1] = box
  fabric ib { join a*.nic }
  shared both 10 GB/s { a0.gpu0 -> a1.gpu0 }
}
