# Imported from f0.txt
# assumed: links and slots carry what --calibration spec says
# assumed: each PCIe switch, CPU and link between CPUs on a way takes 0.3 us

# l40sx2: 2 GPUs (L40S), links per GPU: 0; 1 NIC
# found: 2 GPUs and 1 NICs by nvidia-smi topo -m
# found: GPUs: NVIDIA L40S
# assumed: PCIe slots and uplinks of 16 lanes at 16 GT/s: the table has no rates
# assumed: mlx5_0: the slot's speed is not told, 50 GB/s are enough
node l40sx2 {
  # nic0: mlx5_0
  model "L40S"
  gpus 2
  nic nic0 { bandwidth 400 Gbps }
  pcie pcie0 { ports gpu[0-1]; bandwidth 31.5 GB/s; port nic0 50 GB/s; latency 0.3 us }
}

cluster imported {
  instance n0 = l40sx2
}
