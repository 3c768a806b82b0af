# Four of the eight A100 of a compute node A of ABCI 2.0, on NVSwitch.

import "nodes.dsl"

cluster a100x4_of_8 {
  instance a = abci_a { disable gpu[4-7] }
}
