node box(n, rate = 400 Gbps, n = 3) {
  gpus (n)
  switch s { ports gpu*; bandwidth (rate) }
}
node plain { gpus 2 }
cluster c {
  instance a = box
  instance b = box(n = 8, rate = 8)
  instance d = box(n = 8, n = 4)
  instance e = box(n = m)
  instance f = box(m = 8)
  instance g = plain(gpus = 4)
}
