# Two 4-GPU and two 8-GPU V100 servers: the (4x2+8x2) cluster of HeteCCL, section 6.1 and Appendix C.
# The paper says 4-GPU servers have NICs of 100 or 64 Gbps, not which: the first is taken to have 100, the other 64.

import v100

cluster v100_4x2p8x2 {
  instance a0 = v100x4
  instance a1 = v100x4 { set nic* { bandwidth 64 Gbps } }
  instance b[0-1] = v100x8
  fabric ib { join *.nic*; latency 1.3 us }
}
