# Imported from f0.txt
# suspicious: ports to look at: gpu01 mlx5_1 has no link, MF0;leaf1:MQM9700/U1[4] has no link, gpu01 mlx5_1[1] has
#   no link
# suspicious: no link where other hosts have one (is a port down, or is it no GPU server, see --hosts): gpu01
#   mlx5_1
# found: 7 NICs of 2 hosts
# assumed: hosts are joined by InfiniBand alone: it does not show an NVLink domain of several hosts (NVL72), which
#   a dump of NCCL tells, or a pod of the library such as gb200_nvl72
# assumed: hosts without a dump of their own are h20x4, all of them: --hosts takes some, for example 'gpu*'
# assumed: links and slots carry what --calibration spec says
import h20

cluster imported {
  instance gpu01 = h20x4 { host "gpu01" }
  instance gpu02 = h20x4 { host "gpu02" }
  fabric leaf1 { join gpu01.nic[0,2-3], gpu02.nic[0-3]; latency 1.3 us }
}
