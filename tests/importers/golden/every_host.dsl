# Imported from f0.txt
# suspicious: no link where other hosts have one (is a port down, or is it no GPU server, see --hosts): login1
#   mlx5_1 mlx5_2 mlx5_3, mgmt01 mlx5_1 mlx5_2 mlx5_3
# found: 10 NICs of 4 hosts
# assumed: hosts are joined by InfiniBand alone: it does not show an NVLink domain of several hosts (NVL72), which
#   a dump of NCCL tells, or a pod of the library such as gb200_nvl72
# assumed: hosts without a dump of their own are h20x4, all of them: --hosts takes some, for example 'gpu*'
# assumed: links and slots carry what --calibration spec says
import h20

cluster imported {
  instance gpu01 = h20x4 { host "gpu01" }
  instance gpu02_lab = h20x4 { host "gpu02.lab" }
  instance login1 = h20x4 { host "login1" }
  instance mgmt01 = h20x4 { host "mgmt01" }
  fabric leaf1 { join gpu01.nic[0-3], gpu02_lab.nic[0-3], login1.nic0, mgmt01.nic0; latency 1.3 us }
}
