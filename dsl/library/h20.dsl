# NVIDIA H20 servers as in HeteCCL, section 6.1.
#
# NVLink: 18 NVLink4 links of 25 GB/s each way, 900 GB/s both ways together (NVIDIA H20 data sheet); the paper's own
#   "9 ports x 75 GB/s" agrees with neither 900 nor 450, so the data sheet is used: 450 GB/s per GPU and direction
#   (spec).
#   NCCL counts 20.6 GB/s a link, 370.8 a GPU; nvidia-smi shows the signalling rate, 26.562 a link.
# NICs: four of 400 Gbps a server (HeteCCL 6.1); a GPU each on 4 GPUs, one per two GPUs on 8.
#   Servers of eight with one each: h20x8(nics = 8).
# Latency of an NVSwitch crossing: 0.7 us, the NVLink alpha of TE-CCL. The paper states none.
# Reduce: 1200 GB/s, 90 % of a third of 4.0 TB/s HBM3 (data sheet): two reads and a write for each byte.
# Parameters: nics, how many (a divisor or a multiple of the GPUs, neighbours share), rate of each, nvlink of a GPU.

node h20x4(nics = 4, rate = 400 Gbps, nvlink = 450 GB/s) {
  model "H20"
  gpus 4
  reduce 1200 GB/s
  switch nvswitch { ports gpu[0-3]; bandwidth (nvlink); latency 0.7 us; kind nvlink }
  nic nic[0-(nics - 1)] { bandwidth (rate) }
  for i in 0-(max(4, nics) - 1) {
    attach gpu[((i - i % max(1, nics/4)) / max(1, nics/4))] -> nic[((i - i % max(1, 4/nics)) / max(1, 4/nics))]
  }
}

node h20x8(nics = 4, rate = 400 Gbps, nvlink = 450 GB/s) {
  model "H20"
  gpus 8
  reduce 1200 GB/s
  switch nvswitch { ports gpu[0-7]; bandwidth (nvlink); latency 0.7 us; kind nvlink }
  nic nic[0-(nics - 1)] { bandwidth (rate) }
  for i in 0-(max(8, nics) - 1) {
    attach gpu[((i - i % max(1, nics/8)) / max(1, nics/8))] -> nic[((i - i % max(1, 8/nics)) / max(1, 8/nics))]
  }
}
