import h20

cluster c {
  rack r { instance a = h20x8 }
}
