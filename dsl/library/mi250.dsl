# AMD MI250 servers: eight modules of two dies, sixteen GPUs to the driver, joined by xGMI in a fixed pattern.
#
# xGMI: 50 GB/s each way a link, four links between the dies of a module, one or two between modules, seven links a die
#   (AMD MI250 data sheet; the patterns as below; spec). RCCL counts 36 GB/s a link.
#   mi250x16: as ForestColl and TE-CCL publish it.
#   mi250x16_rccl: as RCCL's own model 16p1h has it. It is the same graph with other numbers: ForestColl's 0-3, 4-7,
#   8-11 and 12-15 are RCCL's 4-7, 0-3, 12-15 and 8-11. amd-smi tells how far two dies are apart, not their links.
# NICs: eight of 200 Gbps, one per module (RCCL's model 16p1h; TE-CCL: 25 GB/s for two dies; ForestColl: 16 GB/s a die).
# Latency: 0.7 us, that of NVLink in TE-CCL; no source states one of xGMI.
# Reduce: 491 GB/s, 90 % of a third of 1.638 TB/s HBM2e a die (data sheet): two reads and a write for each byte.

node mi250x16 {
  model "MI250"
  gpus 16
  reduce 491 GB/s

  link gpu[0,2,4,6,8,10,12,14] <-> gpu[1,3,5,7,9,11,13,15] { bandwidth 50 GB/s x 4; latency 0.7 us; kind xgmi }
  link gpu[0,3,8,11] <-> gpu[4,7,12,15] { bandwidth 50 GB/s x 2; latency 0.7 us; kind xgmi }
  link gpu0 <-> gpu8 { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu1 <-> gpu[5,9,10] { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu2 <-> gpu[6,9,10] { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu3 <-> gpu11 { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu[4,5] <-> gpu6 { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu5 <-> gpu7 { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu[9,10] <-> gpu[13,14] { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu[12,13] <-> gpu14 { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu13 <-> gpu15 { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }

  nic nic[0-7] { bandwidth 200 Gbps }
  attach gpu[0,2,4,6,8,10,12,14] -> nic[0-7]
  attach gpu[1,3,5,7,9,11,13,15] -> nic[0-7]
}

node mi250x16_rccl {
  model "MI250"
  gpus 16
  reduce 491 GB/s

  link gpu[0,2,4,6,8,10,12,14] <-> gpu[1,3,5,7,9,11,13,15] { bandwidth 50 GB/s x 4; latency 0.7 us; kind xgmi }
  link gpu[0,3,8,11] <-> gpu[4,7,12,15] { bandwidth 50 GB/s x 2; latency 0.7 us; kind xgmi }
  link gpu[0,1] <-> gpu2 { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu1 <-> gpu[3,5] { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu2 <-> gpu6 { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu4 <-> gpu12 { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu5 <-> gpu[13,14] { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu6 <-> gpu[13,14] { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu7 <-> gpu15 { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu[8,9] <-> gpu10 { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu9 <-> gpu[11,13] { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu10 <-> gpu14 { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }

  nic nic[0-7] { bandwidth 200 Gbps }
  attach gpu[0,2,4,6,8,10,12,14] -> nic[0-7]
  attach gpu[1,3,5,7,9,11,13,15] -> nic[0-7]
}
