node n {
  gpus 4
  mesh gpu* { bandwidth 25 GB/s }
}

cluster c { instance a[0-1] = n; link a0.gpu0 <-> a1.gpu0 }
