# 64 H20 GPUs for HeteCCL's Table 1, which states only the number of GPUs: 4 copies of (4x2+8).

import h20

cluster h20_64 {
  chunk 16 MB
  instance a[0-1] = h20x4
  instance b0 = h20x8
  instance a[2-3] = h20x4
  instance b1 = h20x8
  instance a[4-5] = h20x4
  instance b2 = h20x8
  instance a[6-7] = h20x4
  instance b3 = h20x8 { disable gpu7 }
  fabric ib { join *.nic*; latency 1.3 us }
}
