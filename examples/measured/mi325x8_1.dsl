# 1 server of eight MI325X; the links of MI300X.

import mi300x

cluster mi325x8_1 {
  instance a = mi300x8 { model "MI325X" }
}
