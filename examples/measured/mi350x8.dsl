# One server of eight MI350X in a full mesh.

import "nodes.dsl"

cluster mi350x8 {
  instance a = mi350x8
}
