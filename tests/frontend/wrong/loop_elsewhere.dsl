node n(k = 4) {
  gpus 4
  for i in range(1, k) { link gpu0 <-> gpu[i] { bandwidth 25 GB/s } }
  for i in 0..(k-2) { link gpu[i] <-> gpu3 { bandwidth 25 GB/s } }
  for i in 1 to 3 { link gpu0 <-> gpu[i] { bandwidth 25 GB/s } }
  for i in 0-k-1 { link gpu0 <-> gpu[i] { bandwidth 25 GB/s } }
}

cluster c {
  instance a = n
}
