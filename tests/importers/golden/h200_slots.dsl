# Imported from f0.txt
# assumed: links and slots carry what --calibration spec says
# assumed: a way over NVLink or xGMI takes 0.7 us

# h200x2: 2 GPUs (H200), links per GPU: 18; 1 NIC
# found: mlx5_0: 400 Gbps in a slot of 31.5 GB/s x16
# assumed: gpu[0-1]: the slot's speed is not told: 63 GB/s, 16 lanes of what the model is made for, or of PCIe 3
#   where it is not known
node h200x2 {
  # gpu[0-1]: 0000:10:00.0, 0000:11:00.0
  # nic0: mlx5_0
  model "H200"
  gpus 2
  nic nic0 { bandwidth 400 Gbps }
  switch nvswitch { ports gpu[0-1]; bandwidth 450 GB/s; latency 0.7 us; kind nvlink }
  bus pcie_nic0 { members gpu[0-1] <-> nic0; bandwidth 31.5 GB/s; kind pcie }
}

cluster imported {
  instance n0 = h200x2
}
