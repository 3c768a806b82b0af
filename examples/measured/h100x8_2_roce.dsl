# Two servers of eight H100 with eight NICs of 400 Gbps each, or sixteen of 200 Gbps, RoCE (OCI BM.GPU.H100.8, Google a3).

import h100

cluster h100x8_2_roce {
  instance a[0-1] = h100x8
  fabric roce { join *.nic*; latency 1.3 us; kind roce }
}
