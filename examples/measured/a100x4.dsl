# One server of four A100 in a full mesh (HGX A100 4-GPU; a node of Polaris).

import a100

cluster a100x4 {
  instance a = a100x4
}
