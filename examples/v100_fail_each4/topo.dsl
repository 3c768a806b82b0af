# V100 (4x2+8) with one GPU of each 4-GPU server failed: HeteCCL, Appendix E.
# Assumed, as the paper names neither: the base cluster is (4x2+8) and the failed GPUs are the last of their servers.
# Their NICs go with them, since on 4 GPUs each NIC serves one GPU.

import v100

cluster v100_fail_each4 {
  instance a0 = v100x4 { disable gpu3 }
  instance a1 = v100x4 { set nic* { bandwidth 64 Gbps }; disable gpu3 }
  instance b = v100x8
  fabric ib { join *.nic*; latency 1.3 us }
}
