node box {
  gpus 4
  nic nic[0-1] { bandwidth 100 Gbps }
  switch sw { ports gpu[0-3], sw; bandwidth 10 GB/s }
  bus b { members gpu[0-1] <-> gpu[1-2]; bandwidth 1 GB/s }
  attach gpu0 -> nic[0-1]
  attach gpu0 -> nic0
  attach gpu[0-2] -> nic[0-1]
  attach nic0 -> gpu0
  attach gpu0 -> gpu1
  link gpu0 <-> b { bandwidth 1 GB/s }
  link gpu0 <-> gpu0 { bandwidth 1 GB/s }
  mesh gpu0 { bandwidth 1 GB/s }
  shared s 10 GB/s { gpu0 -> nic0 }
}
cluster c { instance a = box }
