# Four Azure NDv2 servers (8 x V100) as TE-CCL models them: the NVLinks of a DGX-1 with 0.7 us, and one InfiniBand
# port of 12.5 GB/s a server with 1.3 us, which only gpu0 sends through and only gpu3 receives through. GPUs are numbered
# as the driver does: these two are 0 and 1 of TE-CCL.

import dgx1

cluster ndv2_x4 {
  instance a[0-3] = dgx1 { disable nic* }
  link a0.gpu0 -> a[1,2,3].gpu3 { bandwidth 12.5 GB/s; latency 1.3 us; kind ib }
  link a1.gpu0 -> a[0,2,3].gpu3 { bandwidth 12.5 GB/s; latency 1.3 us; kind ib }
  link a2.gpu0 -> a[0,1,3].gpu3 { bandwidth 12.5 GB/s; latency 1.3 us; kind ib }
  link a3.gpu0 -> a[0,1,2].gpu3 { bandwidth 12.5 GB/s; latency 1.3 us; kind ib }
  shared out0 12.5 GB/s { a0.gpu0 -> a[1,2,3].gpu3 }
  shared in0 12.5 GB/s { a[1,2,3].gpu0 -> a0.gpu3 }
  shared out1 12.5 GB/s { a1.gpu0 -> a[0,2,3].gpu3 }
  shared in1 12.5 GB/s { a[0,2,3].gpu0 -> a1.gpu3 }
  shared out2 12.5 GB/s { a2.gpu0 -> a[0,1,3].gpu3 }
  shared in2 12.5 GB/s { a[0,1,3].gpu0 -> a2.gpu3 }
  shared out3 12.5 GB/s { a3.gpu0 -> a[0,1,2].gpu3 }
  shared in3 12.5 GB/s { a[0,1,2].gpu0 -> a3.gpu3 }
}
