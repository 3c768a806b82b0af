# NVIDIA H100 servers (HGX H100 and DGX H100, eight GPUs).
#
# NVLink: eighteen NVLink4 links of 25 GB/s each way per GPU (NVIDIA H100 data sheet: 900 GB/s both ways together;
#   spec), through four NVSwitches: 450 GB/s per GPU and direction. NCCL counts 20.6 GB/s a link, 370.8 a GPU;
#   nvidia-smi shows the signalling rate, 26.562 a link; ASTRA-sim calculates with 400 a GPU.
# NICs: eight of 400 Gbps, one per GPU (DGX H100 data sheet: ConnectX-7).
# Latency: 0.936 us a switch crossing (ASTRA-sim's HGX H100 network file).
# Reduce: 1005 GB/s, 90 % of a third of 3.35 TB/s HBM3 (H100 SXM data sheet): two reads and a write for each byte.

node h100x8 {
  model "H100"
  gpus 8
  reduce 1005 GB/s
  switch nvswitch { ports gpu[0-7]; bandwidth 450 GB/s; latency 0.936 us; kind nvlink }
  nic nic[0-7] { bandwidth 400 Gbps }
  attach gpu[0-7] -> nic[0-7]
}
