# Three 4-GPU and one 8-GPU H20 server: the (4x3+8) cluster of HeteCCL, section 6.1 and Appendix C.

import h20

cluster h20_4x3p8 {
  chunk 16 MB
  instance a[0-2] = h20x4
  instance b = h20x8
  fabric ib { join *.nic*; latency 1.3 us }
}
