# Two DGX-2 servers (16 x V100) as TE-CCL models them: NVSwitch ports of 125 GB/s with 0.35 us a hop, and from each
# odd GPU one link of 12.5 GB/s and 2.6 us to the even GPU before it in the other server.

node dgx2 {
  model "V100"
  gpus 16
  reduce 270 GB/s
  switch nvswitch { ports gpu[0-15]; bandwidth 125 GB/s; latency 0.7 us; kind nvlink }
}

cluster dgx2_x2 {
  instance a[0-1] = dgx2
  link a0.gpu[1,3,5,7,9,11,13,15] -> a1.gpu[0,2,4,6,8,10,12,14] { bandwidth 12.5 GB/s; latency 2.6 us; kind ib }
  link a1.gpu[1,3,5,7,9,11,13,15] -> a0.gpu[0,2,4,6,8,10,12,14] { bandwidth 12.5 GB/s; latency 2.6 us; kind ib }
}
