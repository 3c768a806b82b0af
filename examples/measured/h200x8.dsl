# One server of eight H200 on NVSwitch.

import h200

cluster h200x8 {
  instance a = h200x8
}
