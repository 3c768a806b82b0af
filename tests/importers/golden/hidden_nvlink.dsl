# Imported from f0.txt
# assumed: links and slots carry what --calibration spec says
# assumed: each PCIe switch, CPU and link between CPUs on a way takes 0.3 us

# a100x2: 2 GPUs (A100), links per GPU: 0; 2 NICs
# suspicious: no NVLink, which A100 mostly have: was it not readable, or is it hidden?
# found: 2 GPUs and 0 NICs by nvidia-smi topo -m
# found: GPUs: A100-SXM4-80GB
# assumed: one NIC a GPU: the tool names none
# assumed: PCIe slots and uplinks of 16 lanes at 16 GT/s: the table has no rates
# assumed: nic0, nic1: the slot's speed is not told, 31.5 GB/s are enough
node a100x2 {
  # nic[0-1]: nic0, nic1
  model "A100"
  gpus 2
  nic nic[0-1] { bandwidth 1 Gbps }
  cpu cpu0 { ports gpu[0-1], nic[0-1]; bandwidth 31.5 GB/s; latency 0.3 us }
}

cluster imported {
  instance n0 = a100x2
}
