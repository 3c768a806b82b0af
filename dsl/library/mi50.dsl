# AMD MI50 servers: Gigabyte Z52, eight GPUs in two islands of four.
#
# xGMI: 33 GB/s each way a link, two links a GPU (SCCL on the Z52; spec). RCCL counts 24.
#   mi50x8: two rings of four, 0-1-5-3 and 2-4-7-6, as RCCL's own model 8p_rome numbers them; between them PCIe.
#   mi50x8_z52: what SCCL's published optima are those of: a ring of eight, 1-0-2-3-5-7-6-4, xGMI and PCIe at one rate.
# PCIe: 27 GB/s each way, generation 4 x16 (SCCL). NCCL counts 24, line rate is 31.5.
# CPUs: two AMD, 16 GB/s between them (NCCL's figure).
# NICs: one of 200 Gbps at the second CPU (RCCL's model).
# Latency: xGMI 0.7 us, that of NVLink in TE-CCL, no source states one; PCIe 1 us (NCCL's figure of a PCIe hop).
# Reduce: 307 GB/s, 90 % of a third of 1024 GB/s HBM2 (MI50 data sheet): two reads and a write for each byte.

node mi50x8 {
  model "MI50"
  gpus 8
  reduce 307 GB/s
  link gpu[0,1,5,3] <-> gpu[1,5,3,0] { bandwidth 33 GB/s; latency 0.7 us; kind xgmi }
  link gpu[2,4,7,6] <-> gpu[4,7,6,2] { bandwidth 33 GB/s; latency 0.7 us; kind xgmi }
  nic nic0 { bandwidth 200 Gbps }
  cpu cpu0 { ports gpu[0-3]; bandwidth 27 GB/s; latency 1 us }
  cpu cpu1 { ports gpu[4-7], nic0; bandwidth 27 GB/s; latency 1 us }
  upi cpu0 <-> cpu1 { bandwidth 16 GB/s; latency 1 us }
}

node mi50x8_z52 {
  model "MI50"
  gpus 8
  reduce 307 GB/s
  link gpu[1,0,2,3,5,7,6,4] <-> gpu[0,2,3,5,7,6,4,1] { bandwidth 27 GB/s; latency 0.7 us; kind xgmi }
  nic nic0 { bandwidth 200 Gbps }
  attach gpu[0-7] -> nic0
}
