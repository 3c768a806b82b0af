node box {
  gpus 0
}
node half { gpus 2.5 }
node huge { gpus 99999999999999999999 }
node gap { gpus 2 except 7; link gpu0 <-> gpu1 { bandwidth 1 GB/s x 0 } }
cluster c {
  instance a = box
  instance b = half
  instance d = huge
  instance e = gap x 0
  instance f = gap
}
