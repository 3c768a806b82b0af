# Two compute nodes A of ABCI 2.0.

import "nodes.dsl"

cluster abci_a_2 {
  instance a[0-1] = abci_a
  fabric ib { join *.nic*; latency 1.3 us; kind infiniband }
}
