# Imported from f0.txt
# suspicious: 4 NICs: their descriptions name no one host, so that each card is a host of its own, called by its
#   GUID; name hosts by `ibnetdiscover --node-name-map FILE`, or take the others with --hosts
# suspicious: the network lists more or fewer NICs than the dumps or the library's type: 10 2 of 8, 20 2 of 8
# found: 4 NICs of 2 hosts
# assumed: hosts are joined by InfiniBand alone: it does not show an NVLink domain of several hosts (NVL72), which
#   a dump of NCCL tells, or a pod of the library such as gb200_nvl72
# assumed: hosts without a dump of their own are h100x8, all of them: --hosts takes some, for example 'gpu*'
# assumed: links and slots carry what --calibration spec says
import h100

cluster imported {
  instance n10 = h100x8 { host "10" }
  instance n20 = h100x8 { host "20" }
  fabric leaf1 { join n10.nic[0-1], n20.nic[0-1]; latency 1.3 us }
}
