node box {
  gpus 4
  mesh gpu[0-3] { bandwidth 25 GB/s
}
cluster c { instance a = box }
