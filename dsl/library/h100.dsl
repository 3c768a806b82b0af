# NVIDIA H100 servers (HGX H100 and DGX H100, eight GPUs).
#
# NVLink: eighteen NVLink4 links of 25 GB/s each way per GPU (NVIDIA H100 data sheet: 900 GB/s both ways together;
#   spec), through four NVSwitches: 450 GB/s per GPU and direction. NCCL counts 20.6 GB/s a link, 370.8 a GPU;
#   nvidia-smi shows the signalling rate, 26.562 a link; ASTRA-sim calculates with 400 a GPU.
# NICs: eight of 400 Gbps, one per GPU (DGX H100 data sheet: ConnectX-7). AWS p5: h100x8(nics = 32, rate = 100 Gbps).
# Latency: 0.936 us a switch crossing (ASTRA-sim's HGX H100 network file).
# Reduce: 1005 GB/s, 90 % of a third of 3.35 TB/s HBM3 (H100 SXM data sheet): two reads and a write for each byte.
# Parameters: nics, how many (a divisor or a multiple of the GPUs, neighbours share), rate of each, nvlink of a GPU.

node h100x8(nics = 8, rate = 400 Gbps, nvlink = 450 GB/s) {
  model "H100"
  gpus 8
  reduce 1005 GB/s
  switch nvswitch { ports gpu[0-7]; bandwidth (nvlink); latency 0.936 us; kind nvlink }
  nic nic[0-(nics - 1)] { bandwidth (rate) }
  for i in 0-(max(8, nics) - 1) {
    attach gpu[((i - i % max(1, nics/8)) / max(1, nics/8))] -> nic[((i - i % max(1, 8/nics)) / max(1, 8/nics))]
  }
}
