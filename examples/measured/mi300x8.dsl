# One server of eight MI300X in a full mesh.

import mi300x

cluster mi300x8 {
  instance a = mi300x8
}
