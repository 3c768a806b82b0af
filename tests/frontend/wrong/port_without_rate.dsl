node n {
  gpus 2
  switch s { port gpu[0-1] }
}

cluster c {
  instance a = n
}
