# numbers as programs write them, not as people do
node n {
  gpus 2
  mesh gpu[0-1] { bandwidth 1e9 GB/s; latency 1 us }
  switch s { ports gpu[0-1]; bandwidth 1_000 GB/s; latency .5 us }
}
cluster odd {
  instance a = n
  chunk 1.5.2 MB
}
