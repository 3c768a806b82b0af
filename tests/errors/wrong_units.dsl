node box {
  gpus 2
  reduce 270 us
  link gpu0 <-> gpu1 { bandwidth 25 GB; latency 0.7 GB/s }
  link gpu0 -> gpu1 { bandwidth 25 gbps }
  link gpu1 -> gpu0 { bandwidth 25 parsecs }
}
cluster c { chunk 16 Gbps; instance a = box }
