# 2 servers of eight MI325X; the links of MI300X.

import mi300x

cluster mi325x8_2 {
  instance a[0-1] = mi300x8 { model "MI325X" }
  fabric roce { join *.nic*; latency 1.3 us; kind roce }
}
