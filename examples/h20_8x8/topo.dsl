# Eight 8-GPU H20 servers, 64 GPUs: a homogeneous scale point.

import h20

cluster h20_8x8 {
  chunk 16 MB
  instance b[0-7] = h20x8
  fabric ib { join *.nic*; latency 1.3 us }
}
