# Two 8-GPU and one 4-GPU H20 server: the (8x2+4) cluster of HeteCCL, section 6.1 and Appendix C.

import h20

cluster h20_8x2p4 {
  chunk 16 MB
  instance b[0-1] = h20x8
  instance a = h20x4
  fabric ib { join *.nic*; latency 1.3 us }
}
