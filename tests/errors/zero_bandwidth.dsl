node box {
  gpus 2
  link gpu0 <-> gpu1 { bandwidth 0 GB/s }
}
cluster c { instance a = box }
