# AMD MI300X servers (eight GPUs on one universal base board).
#
# Infinity Fabric: seven links of 64 GB/s each way per GPU, one to every other (AMD MI300X data sheet: 128 GB/s both
#   ways together; spec). RCCL counts 48 GB/s a link, amd-smi shows 50.
# NICs: eight of 400 Gbps, one per GPU (RCCL's model of such a server).
# Latency: 0.7 us, that of NVLink in TE-CCL; no source states one of Infinity Fabric.
# Reduce: 1590 GB/s, 90 % of a third of 5.3 TB/s HBM3 (data sheet): two reads and a write for each byte.

node mi300x8 {
  model "MI300X"
  gpus 8
  reduce 1590 GB/s
  mesh gpu[0-7] { bandwidth 64 GB/s; latency 0.7 us; kind xgmi }
  nic nic[0-7] { bandwidth 400 Gbps }
  attach gpu[0-7] -> nic[0-7]
}
