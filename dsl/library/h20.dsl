# NVIDIA H20 servers as in HeteCCL, section 6.1.
#
# NVLink: 18 NVLink4 links of 25 GB/s each way, 900 GB/s both ways together (NVIDIA H20 data sheet); the paper's own
#   "9 ports x 75 GB/s" agrees with neither 900 nor 450, so the data sheet is used: 450 GB/s per GPU and direction (spec).
#   NCCL counts 20.6 GB/s a link, 370.8 a GPU; nvidia-smi shows the signalling rate, 26.562 a link.
# NICs: four of 400 Gbps a server (HeteCCL 6.1); a GPU each on 4 GPUs, one per two GPUs on 8.
# Latency of an NVSwitch crossing: 0.7 us, the NVLink alpha of TE-CCL. The paper states none.
# Reduce: 1200 GB/s, 90 % of a third of 4.0 TB/s HBM3 (data sheet): two reads and a write for each byte.

node h20x4 {
  model "H20"
  gpus 4
  reduce 1200 GB/s
  switch nvswitch { ports gpu[0-3]; bandwidth 450 GB/s; latency 0.7 us; kind nvlink }
  nic nic[0-3] { bandwidth 400 Gbps }
  attach gpu[0-3] -> nic[0-3]
}

node h20x8 {
  model "H20"
  gpus 8
  reduce 1200 GB/s
  switch nvswitch { ports gpu[0-7]; bandwidth 450 GB/s; latency 0.7 us; kind nvlink }
  nic nic[0-3] { bandwidth 400 Gbps }
  attach gpu[0-1] -> nic0
  attach gpu[2-3] -> nic1
  attach gpu[4-5] -> nic2
  attach gpu[6-7] -> nic3
}
