# Two AWS p4d.24xlarge or p4de.24xlarge: eight A100, four EFA NICs of 100 Gbps.

import a100

cluster p4d_2 {
  instance a[0-1] = a100x8(nics = 4, rate = 100 Gbps)
  fabric efa { join *.nic*; latency 1.3 us; kind efa }
}
