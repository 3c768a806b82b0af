# 16 H20 GPUs for HeteCCL's Table 1, which states only the number of GPUs: 1 copy of (4x2+8).

import h20

cluster h20_16 {
  chunk 16 MB
  instance a[0-1] = h20x4
  instance b0 = h20x8
  fabric ib { join *.nic*; latency 1.3 us }
}
