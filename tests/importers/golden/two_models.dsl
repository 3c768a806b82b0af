# Imported from f0.txt
# suspicious: GPUs of H100, H200 in one server: `model` of all of them is H100
# assumed: links and slots carry what --calibration spec says
# assumed: a way over NVLink or xGMI takes 0.7 us

# h200x4: 4 GPUs (H100, H200), links per GPU: 12; 2 NICs
node h200x4 {
  # gpu[0-3]: 0000:10:00.0, 0000:11:00.0, 0000:12:00.0, 0000:13:00.0
  # nic[0-1]: mlx5_0, mlx5_1
  model "H100"
  gpus 4
  nic nic[0-1] { bandwidth 200 Gbps }
  switch nvswitch { ports gpu[0-3]; bandwidth 300 GB/s; latency 0.7 us; kind nvlink }
  attach gpu[0-1] -> nic0
  attach gpu[2-3] -> nic1
}

cluster imported {
  instance n0 = h200x4
}
