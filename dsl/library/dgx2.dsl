# NVIDIA DGX-2: sixteen V100 SXM3 behind NVSwitches.
#
# NVLink: six NVLink2 links of 25 GB/s each way per GPU (NVIDIA DGX-2 data sheet; spec): 150 GB/s. TACCL and TE-CCL
#   calculate with 125 GB/s, measured; NCCL with 120.
# NICs: eight of 100 Gbps (EDR InfiniBand; data sheet), each on a PCIe switch with two GPUs.
# Latency: 0.7 us, twice the 0.35 us a hop of TE-CCL.
# Reduce: 270 GB/s, 90 % of a third of 900 GB/s HBM2 (V100 data sheet): two reads and a write for each byte.

node dgx2 {
  model "V100"
  gpus 16
  reduce 270 GB/s
  switch nvswitch { ports gpu[0-15]; bandwidth 150 GB/s; latency 0.7 us; kind nvlink }
  nic nic[0-7] { bandwidth 100 Gbps }
  attach gpu[0-1] -> nic0
  attach gpu[2-3] -> nic1
  attach gpu[4-5] -> nic2
  attach gpu[6-7] -> nic3
  attach gpu[8-9] -> nic4
  attach gpu[10-11] -> nic5
  attach gpu[12-13] -> nic6
  attach gpu[14-15] -> nic7
}
