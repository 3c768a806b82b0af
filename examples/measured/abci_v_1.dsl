# 1 compute node V of ABCI: four V100 in a full mesh.

import "nodes.dsl"

cluster abci_v_1 {
  instance a = abci_v
}
