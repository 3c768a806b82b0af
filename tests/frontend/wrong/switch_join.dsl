node n {
  gpus 2
  switch s { join gpu*; bandwidth 450 GB/s }
}

cluster c {
  instance a = n
}
