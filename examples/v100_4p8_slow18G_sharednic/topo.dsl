# V100 (4+8) with one server cut to 18 Gbps (HeteCCL, Appendix E, Figure 16) and one network pipe per server.
# Assumed, as the paper does not say: the slow server is the 4-GPU one, and 18 Gbps is the rate of the whole server
# (the other reading, a rate per NIC, is v100_4p8_slow18G). Each server's NICs are drawn as one, as in
# v100_4p8_sharednic. All other figures are those of the library's v100x4 and v100x8.

node v100x4_onepipe {
  model "V100"
  gpus 4
  reduce 270 GB/s
  mesh gpu[0-3] { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  nic nics { bandwidth 18 Gbps }
  attach gpu[0-3] -> nics
}

node v100x8_onepipe {
  model "V100"
  gpus 8
  reduce 270 GB/s
  mesh gpu[0-3] { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  mesh gpu[4-7] { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  nic nics { bandwidth 100 Gbps }
  bus pcie0 { members gpu[0-1] <-> nics; bandwidth 16 GB/s; kind pcie }
  bus pcie1 { members gpu[2-3] <-> nics; bandwidth 16 GB/s; kind pcie }
  bus pcie2 { members gpu[4-5] <-> nics; bandwidth 16 GB/s; kind pcie }
  bus pcie3 { members gpu[6-7] <-> nics; bandwidth 16 GB/s; kind pcie }
  bus upi { members pcie[0-1] <-> pcie[2-3]; bandwidth 48 GB/s; latency 1.5 us; kind upi }
}

cluster v100_4p8_slow18G_sharednic {
  instance a = v100x4_onepipe
  instance b = v100x8_onepipe
  fabric ib { join *.nics; latency 1.3 us }
}
