# Imported from f0.txt
# assumed: links and slots carry what --calibration spec says
# assumed: each PCIe switch, CPU and link between CPUs on a way takes 0.3 us
# assumed: 22 GB/s between CPUs, what NCCL counts: the tools tell no such rate
# assumed: slots of GPUs whose speed is not told carry 15.75 GB/s, 16 lanes of PCIe 3
# assumed: bridges whose speed is not told are as fast as the fastest device below them

# h100x2: 2 GPUs (H100), links per GPU: 0; 1 NIC
# suspicious: no square NVLinkBandwidth, though these GPUs mostly have NVLink: was lstopo built with NVML?
# found: 2 GPUs, 1 NICs, 2 CPUs by hwloc
# assumed: mlx5_0: the slot's speed is not told, 50 GB/s are enough
node h100x2 {
  # gpu[0-1]: 0000:97:00.0, 0000:17:00.0
  # nic0: mlx5_0
  model "H100"
  gpus 2
  nic nic0 { bandwidth 400 Gbps }
  pcie pcie0 { ports nic0; bandwidth 50 GB/s; port gpu1 15.75 GB/s; latency 0.3 us }
  cpu cpu0 { ports pcie0; bandwidth 50 GB/s; latency 0.3 us }
  cpu cpu1 { ports gpu0; bandwidth 15.75 GB/s; latency 0.3 us }
  upi cpu0 <-> cpu1 { bandwidth 22 GB/s; latency 0.3 us }
}

cluster imported {
  instance node01 = h100x2 { host "node01" }
}
