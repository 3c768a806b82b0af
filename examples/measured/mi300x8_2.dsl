# Two servers of eight MI300X with eight NICs of 400 Gbps each, RoCE.

import mi300x

cluster mi300x8_2 {
  instance a[0-1] = mi300x8
  fabric roce { join *.nic*; latency 1.3 us; kind roce }
}
