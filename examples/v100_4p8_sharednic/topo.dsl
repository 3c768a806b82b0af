# V100 (4+8) with one network pipe per server: the other reading of HeteCCL, section 6.1.
# "NICs shared by its GPUs" may mean that all GPUs of a server share the stated rate, as in Figure 10, where every
# GPU of a server stands in one group (8,1). Each server's NICs are therefore drawn as one: 64 Gbps for the 4-GPU
# server, 100 Gbps for the other. All other figures are those of the library's v100x4 and v100x8.

node v100x4_onepipe {
  model "V100"
  gpus 4
  reduce 270 GB/s
  mesh gpu[0-3] { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  nic nics { bandwidth 64 Gbps }
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

cluster v100_4p8_sharednic {
  instance a = v100x4_onepipe
  instance b = v100x8_onepipe
  fabric ib { join *.nics; latency 1.3 us }
}
