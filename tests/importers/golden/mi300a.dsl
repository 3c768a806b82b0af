# Imported from f0.txt
# assumed: links and slots carry what --calibration spec says
# assumed: a way over NVLink or xGMI takes 0.7 us

# mi300ax2: 2 GPUs (MI300A), links per GPU: 2; 0 NICs
# found: 2 GPUs, 1 pairs with xGMI links
# assumed: no NICs: the tool names none; --nic-rate adds one a GPU
node mi300ax2 {
  # gpu[0-1]: 0000:00:00.0, 0000:01:00.0
  model "MI300A"
  gpus 2
  mesh gpu[0-1] { bandwidth 64 GB/s x 2; latency 0.7 us; kind xgmi }
}

cluster imported {
  instance n0 = mi300ax2
}
