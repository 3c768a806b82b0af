node box {
  gpus 8
  mesh gpu[0-7] { bandwidth 25 GB/s }
  link gpu7 <-> gpu9 { bandwidth 25 GB/s }
}
cluster c { instance a = box }
