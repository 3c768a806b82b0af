# Imported from f0.txt, f1.txt
# suspicious: f1.txt: 4 NICs of 100 Gbps, and the library's a100x8 has 8 of 200 Gbps: nics = 4, rate = 100 Gbps
#   taken
# found: 8 NICs of 2 hosts
# assumed: hosts are joined by InfiniBand alone: it does not show an NVLink domain of several hosts (NVL72), which
#   a dump of NCCL tells, or a pod of the library such as gb200_nvl72
# assumed: hosts without a dump of their own are a100x8, all of them: --hosts takes some, for example 'gpu*'
# assumed: links and slots carry what --calibration spec says
# assumed: f1.txt is a skeleton with 8 slots of GPUs and 4 of NICs; everything else is the library's a100x8
import a100

cluster imported {
  instance gpu01 = a100x8(nics = 4, rate = 100 Gbps) { host "gpu01" }
  instance gpu02 = a100x8(nics = 4, rate = 100 Gbps) { host "gpu02" }
  fabric leaf1 { join gpu01.nic[0-3], gpu02.nic[0-3]; latency 1.3 us }
}
