# V100 (4+8) with the links of one server cut to 18 Gbps: HeteCCL, Appendix E, Figure 16.
# Assumed, as the paper does not say: the slow server is the 4-GPU one, and each of its four NICs has 18 Gbps.

import v100

cluster v100_4p8_slow18G {
  instance a = v100x4 { set nic* { bandwidth 18 Gbps } }
  instance b = v100x8
  fabric ib { join *.nic*; latency 1.3 us }
}
