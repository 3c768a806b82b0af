# NVIDIA A100 and A800 servers.
#
# NVLink: twelve NVLink3 links of 25 GB/s each way per GPU (NVIDIA A100 data sheet: 600 GB/s both ways together; spec).
#   NCCL counts 20 GB/s a link, 240 a GPU.
#   a100x8: six NVSwitches join all eight, 300 GB/s per GPU and direction (DGX A100, HGX A100 8-GPU).
#   a100x4: HGX A100 4-GPU has no switch; every pair has four links.
#   a800x8: like a100x8 with eight links per GPU, 200 GB/s (NV8 in `nvidia-smi topo -m`; NVIDIA A800 data sheet).
# NICs: one of 200 Gbps per GPU (DGX A100 data sheet: eight ConnectX-6 HDR for compute); assumed for four GPUs too.
# Latency: 0.7 us, the NVLink alpha of TE-CCL (twice 0.35 us a hop on NVSwitch machines).
# Reduce: 466 GB/s, 90 % of a third of 1555 GB/s HBM2 (A100 40 GB data sheet): two reads and a write for each byte.
#   A800: 612 GB/s of 2039 GB/s HBM2e (A800 80 GB data sheet).
# Parameters of those of eight: nics, how many (a divisor or a multiple of the GPUs, neighbours share), rate of each,
#   nvlink of a GPU.

node a100x4 {
  model "A100"
  gpus 4
  reduce 466 GB/s
  mesh gpu[0-3] { bandwidth 25 GB/s x 4; latency 0.7 us; kind nvlink }
  nic nic[0-3] { bandwidth 200 Gbps }
  attach gpu[0-3] -> nic[0-3]
}

node a100x8(nics = 8, rate = 200 Gbps, nvlink = 300 GB/s) {
  model "A100"
  gpus 8
  reduce 466 GB/s
  switch nvswitch { ports gpu[0-7]; bandwidth (nvlink); latency 0.7 us; kind nvlink }
  nic nic[0-(nics - 1)] { bandwidth (rate) }
  for i in 0-(max(8, nics) - 1) {
    attach gpu[((i - i % max(1, nics/8)) / max(1, nics/8))] -> nic[((i - i % max(1, 8/nics)) / max(1, 8/nics))]
  }
}

node a800x8(nics = 8, rate = 200 Gbps, nvlink = 200 GB/s) {
  model "A800"
  gpus 8
  reduce 612 GB/s
  switch nvswitch { ports gpu[0-7]; bandwidth (nvlink); latency 0.7 us; kind nvlink }
  nic nic[0-(nics - 1)] { bandwidth (rate) }
  for i in 0-(max(8, nics) - 1) {
    attach gpu[((i - i % max(1, nics/8)) / max(1, nics/8))] -> nic[((i - i % max(1, 8/nics)) / max(1, 8/nics))]
  }
}
