# One 4-GPU (64 Gbps NICs) and one 8-GPU V100 server: the V100 (4+8) cluster of HeteCCL, section 6.1 and Appendix C.

import v100

cluster v100_4p8 {
  instance a = v100x4 { set nic* { bandwidth 64 Gbps } }
  instance b = v100x8
  fabric ib { join *.nic*; latency 1.3 us }
}
