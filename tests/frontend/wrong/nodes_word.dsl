nodes n {
  gpus 2
}
