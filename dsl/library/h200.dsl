# NVIDIA H200 servers (HGX H200 and DGX H200, eight GPUs): an H100 server with more memory.
#
# NVLink: eighteen NVLink4 links of 25 GB/s each way per GPU (NVIDIA H200 data sheet: 900 GB/s both ways together; spec)
#   through four NVSwitches: 450 GB/s per GPU and direction. NCCL counts 20.6 GB/s a link, 370.8 a GPU; nvidia-smi
#   shows the signalling rate, 26.562 a link.
# NICs: eight of 400 Gbps, one per GPU (DGX H200 data sheet: ConnectX-7).
# Latency: 0.936 us a switch crossing (ASTRA-sim's HGX H100 network file: the same NVSwitches).
# Reduce: 1440 GB/s, 90 % of a third of 4.8 TB/s HBM3e (H200 data sheet): two reads and a write for each byte.

node h200x8 {
  model "H200"
  gpus 8
  reduce 1440 GB/s
  switch nvswitch { ports gpu[0-7]; bandwidth 450 GB/s; latency 0.936 us; kind nvlink }
  nic nic[0-7] { bandwidth 400 Gbps }
  attach gpu[0-7] -> nic[0-7]
}
