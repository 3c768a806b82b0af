# AMD MI100 servers: hives of four GPUs, each with a link to every other of its hive.
#
# xGMI: 46 GB/s each way a link, three links a GPU (AMD MI100 data sheet: 92 GB/s both ways a link; spec). RCCL counts 24.
#   mi100x4: one hive.
#   mi100x8: two hives, one at each CPU, which meet over PCIe.
# PCIe: 31.5 GB/s each way, generation 4 x16, line rate (MI100 data sheet; raw). NCCL counts 24.
# CPUs: two AMD, 16 GB/s between them (NCCL's figure; no data sheet states what is reached).
# NICs: one of 200 Gbps per GPU, as in RCCL's model of four hives.
# Latency: xGMI 0.7 us, that of NVLink in TE-CCL, no source states one; PCIe 1 us (NCCL's figure of a PCIe hop).
# Reduce: 369 GB/s, 90 % of a third of 1229 GB/s HBM2 (data sheet): two reads and a write for each byte.

node mi100x4 {
  model "MI100"
  gpus 4
  reduce 369 GB/s
  mesh gpu[0-3] { bandwidth 46 GB/s; latency 0.7 us; kind xgmi }
  nic nic[0-3] { bandwidth 200 Gbps }
  attach gpu[0-3] -> nic[0-3]
}

node mi100x8 {
  model "MI100"
  gpus 8
  reduce 369 GB/s
  mesh gpu[0-3] { bandwidth 46 GB/s; latency 0.7 us; kind xgmi }
  mesh gpu[4-7] { bandwidth 46 GB/s; latency 0.7 us; kind xgmi }
  nic nic[0-7] { bandwidth 200 Gbps }
  attach gpu[0-7] -> nic[0-7]
  cpu cpu0 { ports gpu[0-3]; bandwidth 31.5 GB/s; latency 1 us }
  cpu cpu1 { ports gpu[4-7]; bandwidth 31.5 GB/s; latency 1 us }
  upi cpu0 <-> cpu1 { bandwidth 16 GB/s; latency 1 us }
}
