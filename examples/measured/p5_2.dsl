# Two AWS p5.48xlarge: eight H100, 32 EFA NICs of 100 Gbps.

import h100

cluster p5_2 {
  instance a[0-1] = h100x8(nics = 32, rate = 100 Gbps)
  fabric efa { join *.nic*; latency 1.3 us; kind efa }
}
