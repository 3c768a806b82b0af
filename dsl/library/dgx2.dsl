# NVIDIA DGX-2: sixteen V100 SXM3 behind NVSwitches.
#
# NVLink: six NVLink2 links of 25 GB/s each way per GPU (NVIDIA DGX-2 data sheet; spec): 150 GB/s. TACCL and TE-CCL
#   calculate with 125 GB/s, measured; NCCL with 120.
# NICs: eight of 100 Gbps (EDR InfiniBand; data sheet), each on a PCIe switch with two GPUs.
# Latency: 0.7 us, twice the 0.35 us a hop of TE-CCL.
# Reduce: 270 GB/s, 90 % of a third of 900 GB/s HBM2 (V100 data sheet): two reads and a write for each byte.
# Parameters: nics, how many (a divisor or a multiple of the GPUs, neighbours share), rate of each, nvlink of a GPU.

node dgx2(nics = 8, rate = 100 Gbps, nvlink = 150 GB/s) {
  model "V100"
  gpus 16
  reduce 270 GB/s
  switch nvswitch { ports gpu[0-15]; bandwidth (nvlink); latency 0.7 us; kind nvlink }
  nic nic[0-(nics - 1)] { bandwidth (rate) }
  for i in 0-(max(16, nics) - 1) {
    attach gpu[((i - i % max(1, nics/16)) / max(1, nics/16))] -> nic[((i - i % max(1, 16/nics)) / max(1, 16/nics))]
  }
}
