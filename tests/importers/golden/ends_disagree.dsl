# Imported from f0.txt
# suspicious: ports to look at: node01 mlx5_0[1] has another rate than its other end
# suspicious: NICs of 200 Gbps, and the library's h20x4 has 4 of 400 Gbps: rate = 200 Gbps taken
# found: 4 NICs of 2 hosts
# assumed: hosts are joined by InfiniBand alone: it does not show an NVLink domain of several hosts (NVL72), which
#   a dump of NCCL tells, or a pod of the library such as gb200_nvl72
# assumed: hosts without a dump of their own are h20x4, all of them: --hosts takes some, for example 'gpu*'
# assumed: links and slots carry what --calibration spec says
import h20

cluster imported {
  instance node01 = h20x4 { host "node01" }
  instance node02 = h20x4(rate = 200 Gbps) { host "node02" }
  fabric leaf1 { join node01.nic0, node02.nic0; latency 0.65 us }
  fabric leaf2 { join node01.nic1, node02.nic1; latency 0.65 us }
  switch spine1 { ports leaf1; bandwidth 25 GB/s x 2; latency 0.65 us; kind uplink }
  link leaf2 <-> spine1 { bandwidth 12.5 GB/s; kind uplink }
}
