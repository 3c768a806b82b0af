# V100 (4+8) with one GPU of the 8-GPU server failed: HeteCCL, Appendix E.
# Assumed, as the paper names neither: the base cluster is (4+8) and the failed GPU is the last of its server. Its
# PCIe switch and NIC stay with its neighbour.

import v100

cluster v100_fail_one8 {
  instance a = v100x4 { set nic* { bandwidth 64 Gbps } }
  instance b = v100x8 { disable gpu7 }
  fabric ib { join *.nic*; latency 1.3 us }
}
