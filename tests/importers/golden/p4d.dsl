# Imported from f0.txt
# suspicious: f0.txt: 4 NICs of 100 Gbps, and the library's a100x8 has 8 of 200 Gbps: nics = 4, rate = 100 Gbps
#   taken
# assumed: links and slots carry what --calibration spec says
# assumed: f0.txt is a skeleton with 8 slots of GPUs and 4 of NICs; everything else is the library's a100x8
import a100

cluster imported {
  instance n0 = a100x8(nics = 4, rate = 100 Gbps)
}
