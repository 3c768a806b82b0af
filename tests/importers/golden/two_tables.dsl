# Imported from f0.txt, f1.txt
# assumed: links and slots carry what --calibration spec says
# assumed: a way over NVLink or xGMI takes 0.7 us

# h100x4: 4 GPUs (H100), links per GPU: 18; 4 NICs
# found: 4 GPUs and 4 NICs by nvidia-smi topo -m
# found: GPUs: NVIDIA H100 80GB HBM3
node h100x4 {
  # nic[0-3]: mlx5_0, mlx5_1, mlx5_2, mlx5_3
  model "H100"
  gpus 4
  nic nic[0-3] { bandwidth 400 Gbps }
  switch nvswitch { ports gpu[0-3]; bandwidth 450 GB/s; latency 0.7 us; kind nvlink }
  attach gpu[0-3] -> nic[0-3]
}

# a100x4: 4 GPUs (A100), links per GPU: 12; 4 NICs
# found: 4 GPUs and 4 NICs by nvidia-smi topo -m
# found: GPUs: A100-SXM4
node a100x4 {
  # nic[0-3]: mlx5_0, mlx5_1, mlx5_2, mlx5_3
  model "A100"
  gpus 4
  nic nic[0-3] { bandwidth 400 Gbps }
  switch nvswitch { ports gpu[0-3]; bandwidth 300 GB/s; latency 0.7 us; kind nvlink }
  attach gpu[0-3] -> nic[0-3]
}

cluster imported {
  instance n0 = h100x4
  instance n1 = a100x4
  fabric net { join *.nic*; latency 1.3 us }
}
