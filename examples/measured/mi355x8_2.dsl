# Two servers of eight MI355X with eight NICs of 400 Gbps each (Pollara), RoCE.

import "nodes.dsl"

cluster mi355x8_2 {
  instance a[0-1] = mi350x8 { model "MI355X" }
  fabric roce { join *.nic*; latency 1.3 us; kind roce }
}
