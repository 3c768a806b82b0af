import h20

cluster c {
  instance a = h20x8
  set a.gpu0 { bandwidth 18 Gbps }
}
