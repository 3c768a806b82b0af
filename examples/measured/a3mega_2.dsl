# Two Google a3-megagpu-8g: eight H100, eight NICs of 200 Gbps, TCPXO.

import h100

cluster a3mega_2 {
  instance a[0-1] = h100x8(rate = 200 Gbps)
  fabric tcpxo { join *.nic*; latency 1.3 us; kind tcpxo }
}
