# NVIDIA B200 servers (HGX B200 and DGX B200, eight GPUs).
#
# NVLink: eighteen NVLink5 links of 50 GB/s each way per GPU (NVIDIA DGX B200 data sheet: 1.8 TB/s both ways together;
#   spec): 900 GB/s per GPU and direction. NCCL counts 40.1 GB/s a link, 721.8 a GPU; nvidia-smi shows 53.125 a link.
# NICs: eight of 400 Gbps, one per GPU (DGX B200 data sheet: ConnectX-7). Boxes with ConnectX-8 have 800 Gbps.
# Latency: 0.936 us a switch crossing, that of H100 (ASTRA-sim's HGX H100 network file); no source states one of NVLink5.
# Reduce: 2400 GB/s, 90 % of a third of 8 TB/s HBM3e (data sheet): two reads and a write for each byte.

node b200x8 {
  model "B200"
  gpus 8
  reduce 2400 GB/s
  switch nvswitch { ports gpu[0-7]; bandwidth 900 GB/s; latency 0.936 us; kind nvlink }
  nic nic[0-7] { bandwidth 400 Gbps }
  attach gpu[0-7] -> nic[0-7]
}
