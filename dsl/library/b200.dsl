# NVIDIA B200 servers (HGX B200 and DGX B200, eight GPUs).
#
# NVLink: eighteen NVLink5 links of 50 GB/s each way per GPU (NVIDIA DGX B200 data sheet: 1.8 TB/s both ways together;
#   spec): 900 GB/s per GPU and direction. NCCL counts 40.1 GB/s a link, 721.8 a GPU; nvidia-smi shows 53.125 a link.
# NICs: eight of 400 Gbps, one per GPU (DGX B200 data sheet: ConnectX-7). Boxes with ConnectX-8 have 800 Gbps.
# Latency: 0.936 us a switch crossing, that of H100 (ASTRA-sim's HGX H100 network file); no source states NVLink5's.
# Reduce: 2400 GB/s, 90 % of a third of 8 TB/s HBM3e (data sheet): two reads and a write for each byte.
# Parameters: nics, how many (a divisor or a multiple of the GPUs, neighbours share), rate of each, nvlink of a GPU.

node b200x8(nics = 8, rate = 400 Gbps, nvlink = 900 GB/s) {
  model "B200"
  gpus 8
  reduce 2400 GB/s
  switch nvswitch { ports gpu[0-7]; bandwidth (nvlink); latency 0.936 us; kind nvlink }
  nic nic[0-(nics - 1)] { bandwidth (rate) }
  for i in 0-(max(8, nics) - 1) {
    attach gpu[((i - i % max(1, nics/8)) / max(1, nics/8))] -> nic[((i - i % max(1, 8/nics)) / max(1, 8/nics))]
  }
}
