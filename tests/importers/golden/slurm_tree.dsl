# Imported from f0.txt
# found: 4 hosts below 2 switches or blocks
# assumed: hosts without a dump of their own are h20x8, all of them: --hosts takes some, for example 'gpu*'
# assumed: links and slots carry what --calibration spec says
import h20

cluster imported {
  instance node00 = h20x8 { host "node00" }
  instance node01 = h20x8 { host "node01" }
  instance node02 = h20x8 { host "node02" }
  instance node03 = h20x8 { host "node03" }
  fabric s0 { join node00.nic*, node01.nic*; latency 0.65 us }
  fabric s1 { join node02.nic*, node03.nic*; latency 0.65 us }
  switch top { ports s0, s1; bandwidth 200 GB/s; latency 0.65 us; kind uplink }
}
