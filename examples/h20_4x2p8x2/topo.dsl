# Two 4-GPU and two 8-GPU H20 servers: the (4x2+8x2) cluster of HeteCCL, section 6.1 and Appendix C.

import h20

cluster h20_4x2p8x2 {
  chunk 16 MB
  instance a[0-1] = h20x4
  instance b[0-1] = h20x8
  fabric ib { join *.nic*; latency 1.3 us }
}
