# Imported from f0.txt
# assumed: links and slots carry what --calibration spec says
# assumed: each PCIe switch, CPU and link between CPUs on a way takes 0.3 us

# a100x2: 2 GPUs (A100), links per GPU: 0; 1 NIC
# suspicious: no NVLink, which A100 mostly have: was it not readable, or is it hidden?
node a100x2 {
  # gpu[0-1]: 0000:10:00.0, 0000:11:00.0
  # nic0: mlx5_0
  model "A100"
  gpus 2
  nic nic0 { bandwidth 200 Gbps }
  pcie pcie0 { ports gpu[0-1], nic0; bandwidth 31.5 GB/s; latency 0.3 us }
}

cluster imported {
  instance n0 = a100x2
}
