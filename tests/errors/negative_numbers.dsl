node box {
  gpus 2
  link gpu0 <-> gpu1 { bandwidth -25 GB/s; latency -1 us }
  nic nic0 { bandwidth -0.5 Gbps }
  attach gpu0 -> nic0
}
cluster c { chunk -1 MB; instance a = box }
