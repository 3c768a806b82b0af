# Two A100 servers as ForestColl models them: 300 GB/s from each GPU to NVSwitch, one 25 GB/s NIC a GPU, NICs of even
# and of odd number on two separate InfiniBand switches. Latencies are those of the library and of examples/h20_4p8.

import a100

cluster a100_x2 {
  instance a[0-1] = a100x8
  fabric even { join *.nic[0,2,4,6]; latency 1.3 us }
  fabric odd { join *.nic[1,3,5,7]; latency 1.3 us }
}
