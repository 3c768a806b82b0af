# NVIDIA GB200 NVL72: a rack of 18 compute trays, four GPUs and two Grace CPUs each, in one NVLink domain.
#
# NVLink: eighteen NVLink5 links of 50 GB/s each way per GPU (NVIDIA GB200 NVL72 data sheet: 1.8 TB/s both ways
#   together; spec): 900 GB/s per GPU and direction, to nine switch trays that block nothing. NCCL counts 721.8 GB/s a GPU.
# NICs: four of 400 Gbps a tray, one per GPU (data sheet: ConnectX-7).
# Latency: 0.936 us a switch crossing, that of H100 (ASTRA-sim's HGX H100 network file); no source states NVLink5's.
# Reduce: 2400 GB/s, 90 % of a third of 8 TB/s HBM3e (data sheet): two reads and a write for each byte.
#
#   gb200x4: a tray by itself, whose GPUs meet in NVSwitch; for a job that has a single tray of each rack.
#   gb200_tray: a tray without a switch: what joins its GPUs is the rack.
#   gb200_nvl72: the rack, a pod: `instance r[0-1] = gb200_nvl72`, and between racks `fabric ib { join *.*.nic* }`.

node gb200x4 {
  model "GB200"
  gpus 4
  reduce 2400 GB/s
  switch nvswitch { ports gpu[0-3]; bandwidth 900 GB/s; latency 0.936 us; kind nvlink }
  nic nic[0-3] { bandwidth 400 Gbps }
  attach gpu[0-3] -> nic[0-3]
}

node gb200_tray {
  model "GB200"
  gpus 4
  reduce 2400 GB/s
  nic nic[0-3] { bandwidth 400 Gbps }
  attach gpu[0-3] -> nic[0-3]
}

pod gb200_nvl72 {
  instance t[0-17] = gb200_tray
  switch nvswitch { ports t*.gpu*; bandwidth 900 GB/s; latency 0.936 us; kind nvlink }
}
