# Four 4-GPU and six 8-GPU H20 servers, 64 GPUs: a mixed scale point.

import h20

cluster h20_4x4p8x6 {
  chunk 16 MB
  instance a[0-3] = h20x4
  instance b[0-5] = h20x8
  fabric ib { join *.nic*; latency 1.3 us }
}
