# One server of eight B200 on NVSwitch (DGX B200, AWS p6-b200.48xlarge).

import b200

cluster b200x8 {
  instance a = b200x8
}
