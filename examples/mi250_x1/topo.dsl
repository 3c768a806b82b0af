# One server of eight MI250, sixteen dies, as ForestColl models it: xGMI links of 50 GB/s, one to four between two dies.
# The latency is that of NVLink in TE-CCL; no source states one.

node mi250 {
  model "MI250"
  gpus 16
  link gpu0 <-> gpu1 { bandwidth 50 GB/s x 4; latency 0.7 us; kind xgmi }
  link gpu2 <-> gpu3 { bandwidth 50 GB/s x 4; latency 0.7 us; kind xgmi }
  link gpu4 <-> gpu5 { bandwidth 50 GB/s x 4; latency 0.7 us; kind xgmi }
  link gpu6 <-> gpu7 { bandwidth 50 GB/s x 4; latency 0.7 us; kind xgmi }
  link gpu8 <-> gpu9 { bandwidth 50 GB/s x 4; latency 0.7 us; kind xgmi }
  link gpu10 <-> gpu11 { bandwidth 50 GB/s x 4; latency 0.7 us; kind xgmi }
  link gpu12 <-> gpu13 { bandwidth 50 GB/s x 4; latency 0.7 us; kind xgmi }
  link gpu14 <-> gpu15 { bandwidth 50 GB/s x 4; latency 0.7 us; kind xgmi }
  link gpu0 <-> gpu4 { bandwidth 50 GB/s x 2; latency 0.7 us; kind xgmi }
  link gpu3 <-> gpu7 { bandwidth 50 GB/s x 2; latency 0.7 us; kind xgmi }
  link gpu8 <-> gpu12 { bandwidth 50 GB/s x 2; latency 0.7 us; kind xgmi }
  link gpu11 <-> gpu15 { bandwidth 50 GB/s x 2; latency 0.7 us; kind xgmi }
  link gpu0 <-> gpu8 { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu1 <-> gpu5 { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu1 <-> gpu9 { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu1 <-> gpu10 { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu2 <-> gpu6 { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu2 <-> gpu9 { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu2 <-> gpu10 { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu3 <-> gpu11 { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu4 <-> gpu6 { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu5 <-> gpu6 { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu5 <-> gpu7 { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu9 <-> gpu13 { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu10 <-> gpu14 { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu12 <-> gpu14 { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu13 <-> gpu14 { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
  link gpu13 <-> gpu15 { bandwidth 50 GB/s; latency 0.7 us; kind xgmi }
}

cluster mi250_x1 {
  instance a = mi250
}
