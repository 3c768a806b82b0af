node n {
  model "[31mEVIL]0;pwn"
  gpus 2
  mesh gpu* { bandwidth 1 GB/s }
}
import "‮lsd.x"  # a comment may hold what it likes: ‮
cluster c { instance a = n { model "1m" } }
