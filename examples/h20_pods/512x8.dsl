# 512 H20 servers of 8 GPUs, as in HeteCCL, section 7: "thousands of GPUs" of "identical, repeated building blocks".
# The paper states no cluster of this size; servers and NICs are those of its section 6.1, the fabric is non-blocking.

import h20

cluster h20_pods_512x8 {
  chunk 16 MB
  instance s[0-511] = h20x8
  fabric ib { join *.nic*; latency 1.3 us }
}
