# V100 (4+8) with 100 Gbps NICs in both servers: HeteCCL, section 6.1, with the faster of the two rates it gives for
# 4-GPU servers.

import v100

cluster v100_4p8_all100 {
  instance a = v100x4
  instance b = v100x8
  fabric ib { join *.nic*; latency 1.3 us }
}
