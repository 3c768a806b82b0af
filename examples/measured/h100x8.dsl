# One server of eight H100 on NVSwitch.

import h100

cluster h100x8 {
  instance a = h100x8
}
