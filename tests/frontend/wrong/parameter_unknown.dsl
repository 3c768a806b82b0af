node n(k = 2) {
  gpus (k)
  mesh gpu* { bandwidth 25 GB/s }
}
cluster c { instance a = n(m = 3) }
