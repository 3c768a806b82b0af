# 8 servers of eight MI325X; the links of MI300X.

import mi300x

cluster mi325x8_8 {
  instance a[0-7] = mi300x8 { model "MI325X" }
  fabric roce { join *.nic*; latency 1.3 us; kind roce }
}
