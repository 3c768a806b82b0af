# Two servers of eight A100 with eight NICs of 200 Gbps each, InfiniBand.

import a100

cluster a100x8_2 {
  instance a[0-1] = a100x8
  fabric ib { join *.nic*; latency 1.3 us; kind infiniband }
}
