# Two 4-GPU and one 8-GPU V100 server: the (4x2+8) cluster of HeteCCL, section 6.1 and Appendix C.
# The paper says 4-GPU servers have NICs of 100 or 64 Gbps, not which: the first is taken to have 100, the other 64.

import v100

cluster v100_4x2p8 {
  instance a0 = v100x4
  instance a1 = v100x4 { set nic* { bandwidth 64 Gbps } }
  instance b = v100x8
  fabric ib { join *.nic*; latency 1.3 us }
}
