# Imported from f0.txt
# assumed: links and slots carry what --calibration spec says
# assumed: a way over NVLink or xGMI takes 0.7 us
# assumed: each PCIe switch, CPU and link between CPUs on a way takes 0.3 us
# assumed: 16 GB/s between CPUs, what NCCL counts: the tools tell no such rate

# mi300xx3: 3 GPUs (MI300X), links per GPU: 1 on 2, 2 on 1; 0 NICs
# found: 3 GPUs, 2 pairs with xGMI links
# assumed: no NICs: the tool names none; --nic-rate adds one a GPU
# assumed: PCIe slots of 16 lanes at 16 GT/s: the tools have no such rates
node mi300xx3 {
  model "MI300X"
  gpus 3
  link gpu0 <-> gpu1 { bandwidth 64 GB/s; latency 0.7 us; kind xgmi }
  link gpu1 <-> gpu2 { bandwidth 64 GB/s; latency 0.7 us; kind xgmi }
  cpu cpu0 { ports gpu[0-1]; bandwidth 31.5 GB/s; latency 0.3 us }
  cpu cpu1 { ports gpu2; bandwidth 31.5 GB/s; latency 0.3 us }
  upi cpu0 <-> cpu1 { bandwidth 16 GB/s; latency 0.3 us }
}

cluster imported {
  instance n0 = mi300xx3
}
