# One server of eight B300 on NVSwitch.

import b300

cluster b300x8 {
  instance a = b300x8
}
