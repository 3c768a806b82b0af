# 2 compute nodes V of ABCI: four V100 in a full mesh.

import "nodes.dsl"

cluster abci_v_2 {
  instance a[0-1] = abci_v
  fabric ib { join *.nic*; latency 1.3 us; kind infiniband }
}
