import h20

cluster c {
  instance a[0-3] = h20x8
  rails r { spine 400 GB/s }
}
