node box {
  gpuz 4
  switch nv { ports gpu[0-3]; banwidth 450 GB/s }
  nic 3 { bandwidth 100 Gbps }
  mesh gpu[0-3] { bandwidth 25 GB/s }
}
clustr c { instance a = box }
cluster c { instance a == box }
