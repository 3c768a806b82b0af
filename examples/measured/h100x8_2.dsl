# Two servers of eight H100 or H200 with eight NICs of 400 Gbps each, InfiniBand.

import h100

cluster h100x8_2 {
  instance a[0-1] = h100x8
  fabric ib { join *.nic*; latency 1.3 us; kind infiniband }
}
