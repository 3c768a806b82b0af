# NVIDIA B300 servers (HGX B300 and DGX B300, eight GPUs).
#
# NVLink: eighteen NVLink5 links of 50 GB/s each way per GPU, as B200 (NVIDIA HGX B300 data sheet, as vendors of servers
#   quote it: 14.4 TB/s of all eight both ways together; spec): 900 GB/s per GPU and direction. NCCL counts 40.1 GB/s a link, 721.8 a GPU.
# NICs: eight of 800 Gbps, one per GPU (the same: ConnectX-8).
# Latency: 0.936 us a switch crossing, that of H100 (ASTRA-sim's HGX H100 network file); no source states NVLink5's.
# Reduce: 2400 GB/s, 90 % of a third of 8 TB/s HBM3e (the same): two reads and a write for each byte.
# Parameters: nics, how many (a divisor or a multiple of the GPUs, neighbours share), rate of each, nvlink of a GPU.

node b300x8(nics = 8, rate = 800 Gbps, nvlink = 900 GB/s) {
  model "B300"
  gpus 8
  reduce 2400 GB/s
  switch nvswitch { ports gpu[0-7]; bandwidth (nvlink); latency 0.936 us; kind nvlink }
  nic nic[0-(nics - 1)] { bandwidth (rate) }
  for i in 0-(max(8, nics) - 1) {
    attach gpu[((i - i % max(1, nics/8)) / max(1, nics/8))] -> nic[((i - i % max(1, 8/nics)) / max(1, 8/nics))]
  }
}
