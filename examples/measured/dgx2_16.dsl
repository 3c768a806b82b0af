# Sixteen DGX-2; the NICs are those of the product, the page does not state them.

import "nodes.dsl"

cluster dgx2_16 {
  instance a[0-15] = hgx_v100x16
  fabric ib { join *.nic*; latency 1.3 us; kind infiniband }
}
