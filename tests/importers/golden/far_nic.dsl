# Imported from f0.txt
# assumed: links and slots carry what --calibration spec says
# assumed: a way over NVLink or xGMI takes 0.7 us
# assumed: 10 GB/s between CPUs, what NCCL counts: the tools tell no such rate

# a100x2: 2 GPUs (A100), links per GPU: 12; 1 NIC
node a100x2 {
  # gpu[0-1]: 0000:10:00.0, 0000:11:00.0
  # nic0: mlx5_0
  model "A100"
  gpus 2
  nic nic0 { bandwidth 200 Gbps }
  switch nvswitch { ports gpu[0-1]; bandwidth 300 GB/s; latency 0.7 us; kind nvlink }
  bus pcie_nic0 { members gpu[0-1] <-> nic0; bandwidth 10 GB/s; kind pcie }
}

cluster imported {
  instance n0 = a100x2
}
