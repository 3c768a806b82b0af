node n {
  gpus2
  meshgpu[0-1] { bandwidth1GB/s }
}

cluster c { instance a = n }
