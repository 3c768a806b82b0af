# V100 (4+8) with one GPU of the 4-GPU server failed: HeteCCL, Appendix E.
# Assumed, as the paper names neither: the base cluster is (4+8) and the failed GPU is the last of its server. Its
# NIC goes with it, since on 4 GPUs each NIC serves one GPU.

import v100

cluster v100_fail_one4 {
  instance a = v100x4 { set nic* { bandwidth 64 Gbps }; disable gpu3 }
  instance b = v100x8
  fabric ib { join *.nic*; latency 1.3 us }
}
