# Imported from f0.txt
# assumed: links and slots carry what --calibration nccl says
# assumed: a way over NVLink or xGMI takes 0.7 us

# a100x2: 2 GPUs (A100), links per GPU: 4; 0 NICs
node a100x2 {
  # gpu[0-1]: 0000:10:00.0, 0000:11:00.0
  model "A100"
  gpus 2
  mesh gpu[0-1] { bandwidth 36 GB/s x 4; latency 0.7 us; kind xgmi }
}

cluster imported {
  instance n0 = a100x2
  measured xgmi
}
