cluster c {
  gpus 8
}
