# Imported from f0.txt
# assumed: links and slots carry what --calibration spec says
# assumed: f0.txt is a skeleton with 8 slots of GPUs and 8 of NICs; everything else is the library's a100x8
import a100

cluster imported {
  instance n0 = a100x8
}
