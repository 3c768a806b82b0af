import h20
/* two servers */
cluster c {
  instance a = h20x8
}
