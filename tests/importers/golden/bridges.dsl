# Imported from f0.txt
# assumed: links and slots carry what --calibration spec says
# assumed: each PCIe switch, CPU and link between CPUs on a way takes 0.3 us

# a100x4: 4 GPUs (A100), links per GPU: 0; 2 NICs
# suspicious: no NVLink, which A100 mostly have: was it not readable, or is it hidden?
# assumed: 2 bridges whose speed is not told are as fast as the fastest device below them
node a100x4 {
  # gpu[0-3]: 0000:10:00.0, 0000:11:00.0, 0000:12:00.0, 0000:13:00.0
  # nic[0-1]: mlx5_0, mlx5_1
  model "A100"
  gpus 4
  nic nic[0-1] { bandwidth 200 Gbps }
  pcie pcie0 { ports gpu[0-1], nic0; bandwidth 31.5 GB/s; latency 0.3 us }
  pcie pcie1 { ports gpu[2-3], nic1; bandwidth 31.5 GB/s; latency 0.3 us }
  cpu cpu0 { ports pcie[0-1]; bandwidth 31.5 GB/s; latency 0.3 us }
}

cluster imported {
  instance n0 = a100x4
}
