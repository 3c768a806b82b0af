# 1 x t4_pcie12. Generated, seed 14.
# pcie, one server

node t4_pcie12 {
  model "T4"
  gpus 12
  reduce 96 GB/s
  switch plx0 { ports gpu[0-3]; bandwidth 15.75 GB/s; latency 1 us; kind pcie }
  switch plx1 { ports gpu[4-7]; bandwidth 15.75 GB/s; latency 1 us; kind pcie }
  switch plx2 { ports gpu[8-11]; bandwidth 15.75 GB/s; latency 1 us; kind pcie }
  bus host { members plx[0-2]; bandwidth 15.75 GB/s; latency 1.5 us; kind upi }
}

cluster gen014_12_pcie {
  chunk 4 MB
  instance a0 = t4_pcie12
}
