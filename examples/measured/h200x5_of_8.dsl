# 5 of the eight H200 of a server.

import h200

cluster h200x5_of_8 {
  instance a = h200x8 { disable gpu[5-7] }
}
