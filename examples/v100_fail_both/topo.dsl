# V100 (4+8) with one GPU of each server failed: HeteCCL, Appendix E.
# Assumed, as the paper names neither: the base cluster is (4+8) and the failed GPUs are the last of their servers. The
# NIC of the one in the 4-GPU server goes with it; the other's PCIe switch and NIC stay with its neighbour.

import v100

cluster v100_fail_both {
  instance a = v100x4 { set nic* { bandwidth 64 Gbps }; disable gpu3 }
  instance b = v100x8 { disable gpu7 }
  fabric ib { join *.nic*; latency 1.3 us }
}
