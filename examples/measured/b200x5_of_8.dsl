# Five of the eight B200 of a server.

import b200

cluster b200x5_of_8 {
  instance a = b200x8 { disable gpu[5-7] }
}
