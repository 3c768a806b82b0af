# NVIDIA DGX-1 with eight V100: a cube mesh of direct NVLinks, no switch.
#
# NVLink: six NVLink2 links of 25 GB/s each way per GPU (NVIDIA DGX-1 data sheet), one or two to each of four peers.
#   GPUs are numbered as in SCCL (dgx1() of its topologies); `nvidia-smi topo -m` shows the same graph, with
#   SCCL's 0..7 as its GPUs 0, 3, 1, 2, 4, 7, 5, 6.
# NICs: four of 100 Gbps (EDR InfiniBand, data sheet), each next to two GPUs: 0-1, 2-3, 4-5, 6-7 of nvidia-smi.
# Latency: 0.7 us (TE-CCL, NDv2).
# Reduce: 270 GB/s, 90 % of a third of 900 GB/s HBM2 (data sheet): two reads and a write for each byte.

node dgx1 {
  model "V100"
  gpus 8
  reduce 270 GB/s

  link gpu0 <-> gpu1 { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  link gpu0 <-> gpu4 { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  link gpu1 <-> gpu3 { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  link gpu2 <-> gpu3 { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  link gpu2 <-> gpu6 { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  link gpu4 <-> gpu5 { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  link gpu5 <-> gpu7 { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  link gpu6 <-> gpu7 { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }

  link gpu0 <-> gpu2 { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  link gpu0 <-> gpu3 { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  link gpu1 <-> gpu2 { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  link gpu1 <-> gpu5 { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  link gpu3 <-> gpu7 { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  link gpu4 <-> gpu6 { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  link gpu4 <-> gpu7 { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  link gpu5 <-> gpu6 { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }

  nic nic[0-3] { bandwidth 100 Gbps }
  attach gpu[0,2] -> nic0
  attach gpu[1,3] -> nic1
  attach gpu[4,6] -> nic2
  attach gpu[5,7] -> nic3
}
