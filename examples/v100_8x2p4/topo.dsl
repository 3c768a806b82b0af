# Two 8-GPU and one 4-GPU V100 server: the (8x2+4) cluster of HeteCCL, section 6.1 and Appendix C.
# The paper says 4-GPU servers have NICs of 100 or 64 Gbps, not which: 64 is assumed here.

import v100

cluster v100_8x2p4 {
  instance b[0-1] = v100x8
  instance a = v100x4 { set nic* { bandwidth 64 Gbps } }
  fabric ib { join *.nic*; latency 1.3 us }
}
