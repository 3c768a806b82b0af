# Servers of eight V100 SXM2 joined by a cube mesh of NVLinks, without a switch: NVIDIA DGX-1 and Azure NDv2.
#
# NVLink: six NVLink2 links of 25 GB/s each way per GPU (NVIDIA DGX-1 data sheet; spec), one or two to each of four
#   peers, as `nvidia-smi topo -m` of a DGX-1 shows them (NV1, NV2). NCCL counts 20 GB/s a link, TACCL measured 21.7.
# Numbers: GPUs are numbered as the driver does. SCCL, TACCL and TE-CCL number the same graph differently: their
#   0, 1, 2, 3, 4, 5, 6, 7 are 0, 3, 1, 2, 4, 7, 5, 6 here.
# NICs: dgx1 has four of 100 Gbps (EDR InfiniBand; data sheet), each on a PCIe switch with two GPUs: 0-1, 2-3, 4-5, 6-7.
#   ndv2 has one of 100 Gbps (EDR; Azure's NDv2 page), near the first CPU, which all GPUs use.
# Latency: 0.7 us (TE-CCL, NDv2).
# Reduce: 270 GB/s, 90 % of a third of 900 GB/s HBM2 (data sheet): two reads and a write for each byte.

node dgx1 {
  model "V100"
  gpus 8
  reduce 270 GB/s

  link gpu0 <-> gpu3 { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  link gpu0 <-> gpu4 { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  link gpu1 <-> gpu2 { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  link gpu1 <-> gpu5 { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  link gpu2 <-> gpu3 { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  link gpu4 <-> gpu7 { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  link gpu5 <-> gpu6 { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  link gpu6 <-> gpu7 { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }

  link gpu0 <-> gpu1 { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  link gpu0 <-> gpu2 { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  link gpu1 <-> gpu3 { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  link gpu2 <-> gpu6 { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  link gpu3 <-> gpu7 { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  link gpu4 <-> gpu5 { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  link gpu4 <-> gpu6 { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  link gpu5 <-> gpu7 { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }

  nic nic[0-3] { bandwidth 100 Gbps }
  attach gpu[0-1] -> nic0
  attach gpu[2-3] -> nic1
  attach gpu[4-5] -> nic2
  attach gpu[6-7] -> nic3
}

node ndv2 {
  model "V100"
  gpus 8
  reduce 270 GB/s

  link gpu0 <-> gpu3 { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  link gpu0 <-> gpu4 { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  link gpu1 <-> gpu2 { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  link gpu1 <-> gpu5 { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  link gpu2 <-> gpu3 { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  link gpu4 <-> gpu7 { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  link gpu5 <-> gpu6 { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  link gpu6 <-> gpu7 { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }

  link gpu0 <-> gpu1 { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  link gpu0 <-> gpu2 { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  link gpu1 <-> gpu3 { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  link gpu2 <-> gpu6 { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  link gpu3 <-> gpu7 { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  link gpu4 <-> gpu5 { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  link gpu4 <-> gpu6 { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }
  link gpu5 <-> gpu7 { bandwidth 25 GB/s; latency 0.7 us; kind nvlink }

  nic nic0 { bandwidth 100 Gbps }
  attach gpu[0-7] -> nic0
}
