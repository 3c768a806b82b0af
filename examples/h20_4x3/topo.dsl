# Three 4-GPU H20 servers: the (4x3) cluster of HeteCCL, section 6.1 and Appendix C.

import h20

cluster h20_4x3 {
  chunk 16 MB
  instance a[0-2] = h20x4
  fabric ib { join *.nic*; latency 1.3 us }
}
