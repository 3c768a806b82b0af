# Two GPUs of each of two DGX H100, a NIC of 400 Gbps each.

import h100

cluster h100x2_2 {
  instance a[0-1] = h100x8 { disable gpu[2-7] }
  fabric ib { join *.nic*; latency 1.3 us; kind infiniband }
}
