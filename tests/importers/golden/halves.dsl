# Imported from f0.txt
# assumed: links and slots carry what --calibration spec says
# assumed: a way over NVLink or xGMI takes 0.7 us

# a100x4: 4 GPUs (A100), links per GPU: 36; 0 NICs
# found: 4 GPUs made for PCIe 5 state 16.0 GT/s PCIe: virtual machines do
# found: gpu[0-3] are parts of GPUs (MLOPart), which share the NVLinks of their GPU evenly; the way inside of it is
#   left out
node a100x4 {
  # gpu[0-3]: 0000:10:00.0, 0000:10:00.0, 0000:11:00.0, 0000:11:00.0
  model "A100"
  gpus 4
  switch nvswitch { ports gpu[0-3]; bandwidth 900 GB/s; latency 0.7 us; kind nvlink }
}

cluster imported {
  instance n0 = a100x4
}
