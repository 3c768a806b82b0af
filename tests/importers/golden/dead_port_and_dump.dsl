# Imported from f0.txt, f1.txt
# suspicious: no link where other hosts have one (is a port down, or is it no GPU server, see --hosts): gpu01
#   mlx5_1
# found: 7 NICs of 2 hosts
# assumed: hosts are joined by InfiniBand alone: it does not show an NVLink domain of several hosts (NVL72), which
#   a dump of NCCL tells, or a pod of the library such as gb200_nvl72
# assumed: hosts without a dump of their own are like the one server that was read, all of them: --hosts takes
#   some, for example 'gpu*'
# assumed: links and slots carry what --calibration spec says
# assumed: a way over NVLink or xGMI takes 0.7 us

# h100x4: 4 GPUs (H100), links per GPU: 18; 3 NICs
# suspicious: gpu01: mlx5_1: no port in the network, left out
# found: 4 GPUs and 4 NICs by nvidia-smi topo -m
# found: GPUs: NVIDIA H100
node h100x4 {
  # nic[0-2]: mlx5_0, mlx5_2, mlx5_3
  model "H100"
  gpus 4
  nic nic[0-2] { bandwidth 400 Gbps }
  switch nvswitch { ports gpu[0-3]; bandwidth 450 GB/s; latency 0.7 us; kind nvlink }
  attach gpu[0,2-3] -> nic[0-2]
}

# h100x4_b: 4 GPUs (H100), links per GPU: 18; 4 NICs
# found: 4 GPUs and 4 NICs by nvidia-smi topo -m
# found: GPUs: NVIDIA H100
node h100x4_b {
  # nic[0-3]: mlx5_0, mlx5_1, mlx5_2, mlx5_3
  model "H100"
  gpus 4
  nic nic[0-3] { bandwidth 400 Gbps }
  switch nvswitch { ports gpu[0-3]; bandwidth 450 GB/s; latency 0.7 us; kind nvlink }
  attach gpu[0-3] -> nic[0-3]
}

cluster imported {
  instance gpu01 = h100x4 { host "gpu01" }
  instance gpu02 = h100x4_b { host "gpu02" }
  fabric leaf1 { join gpu01.nic[0-2], gpu02.nic[0-3]; latency 1.3 us }
}
