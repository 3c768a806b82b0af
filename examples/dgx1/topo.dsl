# One DGX-1 (8 x V100), direct NVLinks only, GPUs numbered as in SCCL (PPoPP 2021).

import dgx1

cluster dgx1 {
  instance a = dgx1
}
