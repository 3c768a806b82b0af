node box {
  gpus 2
  reduce 270
  link gpu0 <-> gpu1 { bandwidth 25 x 2; latency 0.7 }
}
cluster c { chunk 16; instance a = box }
