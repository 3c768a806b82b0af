import h20

cluster c {
  instance a[0-1] = h20x8
  wan a0.gpu0 <-> a1.gpu0 { bandwidth 12.5 GB/s; length 50 }
}
