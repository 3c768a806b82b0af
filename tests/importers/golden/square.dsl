# Imported from f0.txt
# assumed: links and slots carry what --calibration spec says
# assumed: a way over NVLink or xGMI takes 0.7 us
# assumed: each PCIe switch, CPU and link between CPUs on a way takes 0.3 us

# a100x4: 4 GPUs (A100), links per GPU: 3; 0 NICs
node a100x4 {
  # gpu[0-3]: 0000:10:00.0, 0000:11:00.0, 0000:12:00.0, 0000:13:00.0
  model "A100"
  gpus 4
  link gpu0 <-> gpu1 { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  link gpu2 <-> gpu3 { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  link gpu0 <-> gpu2 { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  link gpu1 <-> gpu3 { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  cpu cpu0 { ports gpu[0-3]; bandwidth 31.5 GB/s; latency 0.3 us }
}

cluster imported {
  instance n0 = a100x4
}
