# One DGX-1 (8 x V100), direct NVLinks only, after SCCL (PPoPP 2021); GPUs numbered as the driver does.

import dgx1

cluster dgx1 {
  instance a = dgx1
}
