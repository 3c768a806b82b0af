node box {
  gpus 3
  link gpu0 <-> gpu1 { bandwidth 25 GB/s }
}
cluster c { instance a = box }
