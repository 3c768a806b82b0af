# Two servers of eight B300 with eight NICs of 800 Gbps each, RoCE.

import b300

cluster b300x8_2 {
  instance a[0-1] = b300x8
  fabric roce { join *.nic*; latency 1.3 us; kind roce }
}
