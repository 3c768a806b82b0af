# Three 4-GPU V100 servers: the (4x3) cluster of HeteCCL, section 6.1 and Appendix C.
# The paper says 4-GPU servers have NICs of 100 or 64 Gbps, not which: the first is taken to have 100, the others 64.

import v100

cluster v100_4x3 {
  instance a0 = v100x4
  instance a[1-2] = v100x4 { set nic* { bandwidth 64 Gbps } }
  fabric ib { join *.nic*; latency 1.3 us }
}
