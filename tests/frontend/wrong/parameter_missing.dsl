node n(k) {
  gpus (k)
  mesh gpu* { bandwidth 25 GB/s }
}
cluster c { instance a = n }
