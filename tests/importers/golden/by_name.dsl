# Imported from f0.txt
# assumed: links and slots carry what --calibration spec says
# assumed: each PCIe switch, CPU and link between CPUs on a way takes 0.3 us

# rtx_5090x2: 2 GPUs (RTX 5090), links per GPU: 0; 0 NICs
# found: 2 GPUs and 0 NICs by nvidia-smi topo -m
# found: GPUs: NVIDIA GeForce RTX 5090
# assumed: no NICs: the tool names none; --nic-rate adds one a GPU
# assumed: PCIe slots and uplinks of 16 lanes at 32 GT/s: the table has no rates
node rtx_5090x2 {
  model "RTX 5090"
  gpus 2
  cpu cpu0 { ports gpu[0-1]; bandwidth 63 GB/s; latency 0.3 us }
}

cluster imported {
  instance n0 = rtx_5090x2
}
