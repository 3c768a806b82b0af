# Pods hold servers.
node box {
  gpus 1
  nic nic { bandwidth 100 Gbps }
  attach gpu0 -> nic
}

pod inner {
  instance a[0-1] = box
  fabric leaf { join a*.nic }
}

pod outer {
  instance i = inner
}

cluster nested {
  instance o = outer
}
