node n(r = 25) {
  gpus 2
  mesh gpu* { bandwidth (r) GB/s }
}
cluster c { instance a = n }
