# Imported from f0.txt
# assumed: links and slots carry what --calibration spec says
# assumed: a way over NVLink or xGMI takes 0.7 us

# h200x8: 8 GPUs (H200), links per GPU: 17 on 1, 18 on 7; 0 NICs
# suspicious: GPUs of sm90 have different numbers of links: 18, but gpu3 17: links may be down
# found: 8 GPUs and 0 NICs by nvidia-smi topo -m
# assumed: no NICs: the tool names none; --nic-rate adds one a GPU
node h200x8 {
  model "H200"
  gpus 8
  switch nvswitch { ports gpu[0-2,4-7]; bandwidth 450 GB/s; latency 0.7 us; kind nvlink }
  link gpu3 <-> nvswitch { bandwidth 425 GB/s; kind nvlink }
}

cluster imported {
  instance n0 = h200x8
}
