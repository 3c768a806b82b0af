# Imported from f0.txt
# assumed: links and slots carry what --calibration spec says

# b300x1: 1 GPUs (B300), links per GPU: 0; 0 NICs
node b300x1 {
  # gpu0: 0000:10:00.0
  model "B300"
  gpus 1
}

cluster imported {
  instance n0 = b300x1
}
