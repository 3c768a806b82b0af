node box {
  gpus 3
  link gpu0 <-> gpu1 { bandwidth 1 GB/s }
  link gpu1 <-> gpu2 { bandwidth 1 GB/s }
  shared g 1 GB/s { gpu0 -> gpu2 }
}
cluster c { instance a = box }
