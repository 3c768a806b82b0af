# A rack of 72 GB200 in one NVLink domain.

import gb200

cluster gb200_nvl72 {
  instance r = gb200_nvl72
}
