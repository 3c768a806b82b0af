# Two GPUs of a server meet over its NICs only: as a pod it does not hang together.
node box {
  gpus 2
  nic nic[0-1] { bandwidth 100 Gbps }
  attach gpu[0-1] -> nic[0-1]
}

cluster apart {
  instance a[0-1] = box
  fabric ib { join a*.nic* }
}
