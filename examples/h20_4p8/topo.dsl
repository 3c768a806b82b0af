# One 4-GPU and one 8-GPU H20 server: the (4+8) cluster of HeteCCL, section 6.1 and Appendix C.
# With chunks of 16 MB, eq. 1 gives an NVSwitch port the capacity 9 and a NIC the capacity 1.

import h20

cluster h20_4p8 {
  chunk 16 MB
  instance a = h20x4
  instance b = h20x8
  fabric ib { join *.nic*; latency 1.3 us }
}
