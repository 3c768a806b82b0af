# One server of eight A100 on NVSwitch (DGX A100, NDm A100 v4).

import a100

cluster a100x8 {
  instance a = a100x8
}
