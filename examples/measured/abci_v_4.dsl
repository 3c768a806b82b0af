# 4 compute nodes V of ABCI: four V100 in a full mesh.

import "nodes.dsl"

cluster abci_v_4 {
  instance a[0-3] = abci_v
  fabric ib { join *.nic*; latency 1.3 us; kind infiniband }
}
