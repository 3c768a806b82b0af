import h20

cluster c {
  chunk_size 16 MB
  instance a = h20x8
}
