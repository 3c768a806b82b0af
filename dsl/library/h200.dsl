# NVIDIA H200 servers (HGX H200 and DGX H200, eight GPUs): an H100 server with more memory.
#
# NVLink: eighteen NVLink4 links of 25 GB/s each way per GPU (NVIDIA H200 data sheet: 900 GB/s both ways together; spec)
#   through four NVSwitches: 450 GB/s per GPU and direction. NCCL counts 20.6 GB/s a link, 370.8 a GPU; nvidia-smi
#   shows the signalling rate, 26.562 a link.
# NICs: eight of 400 Gbps, one per GPU (DGX H200 data sheet: ConnectX-7).
# Latency: 0.936 us a switch crossing (ASTRA-sim's HGX H100 network file: the same NVSwitches).
# Reduce: 1440 GB/s, 90 % of a third of 4.8 TB/s HBM3e (H200 data sheet): two reads and a write for each byte.
# Parameters: nics, how many (a divisor or a multiple of the GPUs, neighbours share), rate of each, nvlink of a GPU.

node h200x8(nics = 8, rate = 400 Gbps, nvlink = 450 GB/s) {
  model "H200"
  gpus 8
  reduce 1440 GB/s
  switch nvswitch { ports gpu[0-7]; bandwidth (nvlink); latency 0.936 us; kind nvlink }
  nic nic[0-(nics - 1)] { bandwidth (rate) }
  for i in 0-(max(8, nics) - 1) {
    attach gpu[((i - i % max(1, nics/8)) / max(1, nics/8))] -> nic[((i - i % max(1, 8/nics)) / max(1, 8/nics))]
  }
}
