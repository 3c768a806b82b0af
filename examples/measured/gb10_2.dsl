# Two DGX Spark through a switch.

import "nodes.dsl"

cluster gb10_2 {
  instance a[0-1] = gb10
  fabric roce { join *.nic*; latency 1.3 us; kind roce }
}
