# Imported from f0.txt
# assumed: links and slots carry what --calibration spec says
# assumed: a way over NVLink or xGMI takes 0.7 us
# assumed: each PCIe switch, CPU and link between CPUs on a way takes 0.3 us

# mi300xx4: 4 GPUs (MI300X), links per GPU: 2 on 2, 3 on 2; 0 NICs
# suspicious: GPU 1 has 2 xGMI links, and most have 3
# suspicious: GPU 2 has 2 xGMI links, and most have 3
# found: 4 GPUs, 5 pairs with xGMI links
# assumed: no NICs: the tool names none; --nic-rate adds one a GPU
# assumed: PCIe slots of 16 lanes at 16 GT/s: the tools have no such rates
node mi300xx4 {
  # gpu[0-3]: 0000:00:00.0, 0000:01:00.0, 0000:02:00.0, 0000:03:00.0
  model "MI300X"
  gpus 4
  link gpu0 <-> gpu[1-3] { bandwidth 64 GB/s; latency 0.7 us; kind xgmi }
  link gpu1 <-> gpu3 { bandwidth 64 GB/s; latency 0.7 us; kind xgmi }
  link gpu2 <-> gpu3 { bandwidth 64 GB/s; latency 0.7 us; kind xgmi }
  cpu cpu0 { ports gpu[0-3]; bandwidth 31.5 GB/s; latency 0.3 us }
}

cluster imported {
  instance n0 = mi300xx4
}
