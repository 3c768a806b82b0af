# NVIDIA V100 servers as in HeteCCL, section 6.1 (its second test bed).
#
# NVLink: six NVLink2 links of 25 GB/s each way per GPU (NVIDIA V100 data sheet: 300 GB/s both ways together); four
#   GPUs to a module and none between modules, so every pair of a module has two links, as in HeteCCL Figure 10.
# PCIe: two GPUs share a 16 GB/s switch; the modules meet over UPI at 48 GB/s (HeteCCL 6.1), taken per direction.
# NICs: four a server; 100 Gbps on 8 GPUs, 100 or 64 Gbps on 4 GPUs (HeteCCL 6.1): `set nic* { bandwidth 64 Gbps }`.
# Latency: NVLink 0.7 us (TE-CCL, NDv2). Across UPI 1.5 us is an estimate; no source states it.
# Reduce: 270 GB/s, 90 % of a third of 900 GB/s HBM2 (data sheet): two reads and a write for each byte.

node v100x4 {
  model "V100"
  gpus 4
  reduce 270 GB/s
  mesh gpu[0-3] { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  nic nic[0-3] { bandwidth 100 Gbps }
  attach gpu[0-3] -> nic[0-3]
}

node v100x8 {
  model "V100"
  gpus 8
  reduce 270 GB/s
  mesh gpu[0-3] { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  mesh gpu[4-7] { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  nic nic[0-3] { bandwidth 100 Gbps }
  bus pcie0 { members gpu[0-1] <-> nic0; bandwidth 16 GB/s; kind pcie }
  bus pcie1 { members gpu[2-3] <-> nic1; bandwidth 16 GB/s; kind pcie }
  bus pcie2 { members gpu[4-5] <-> nic2; bandwidth 16 GB/s; kind pcie }
  bus pcie3 { members gpu[6-7] <-> nic3; bandwidth 16 GB/s; kind pcie }
  bus upi { members pcie[0-1] <-> pcie[2-3]; bandwidth 48 GB/s; latency 1.5 us; kind upi }
}
