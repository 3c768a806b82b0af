# Imported from f0.txt
# suspicious: NVLink between servers is left out: gb200_tray is a part of gb200_nvl72, and the file does not tell
#   of which; write an instance of it for each rack
# found: 8 NICs of 2 hosts
# assumed: hosts are joined by InfiniBand alone: it does not show an NVLink domain of several hosts (NVL72), which
#   a dump of NCCL tells, or a pod of the library such as gb200_nvl72
# assumed: hosts without a dump of their own are gb200_tray, all of them: --hosts takes some, for example 'gpu*'
# assumed: links and slots carry what --calibration spec says
import gb200

cluster imported {
  instance tray01 = gb200_tray { host "tray01" }
  instance tray02 = gb200_tray { host "tray02" }
  fabric leaf1 { join tray01.nic[0-3], tray02.nic[0-3]; latency 1.3 us }
}
