# AMD MI300A servers (four APUs).
#
# Infinity Fabric: a link of 64 GB/s each way between every two APUs (RCCL's file of such a server, topo_4p_940.xml, has
#   one a pair; the rate is that of MI300X's links; spec). An operator measured 182 GB/s between two APUs
#   (rocm-bandwidth-test), which is more than one link carries: no source read here states how many a pair has. State the
#   parameter xgmi where you know it. RCCL counts 48 GB/s a link.
# NICs: four of 200 Gbps, one per APU (the same file: Slingshot cxi0 to cxi3).
# Latency: 0.7 us, that of NVLink in TE-CCL; no source states one of Infinity Fabric.
# Reduce: 1590 GB/s, 90 % of a third of 5.3 TB/s HBM3 (MI300X data sheet; the memory is the same): two reads and a write for each byte.
# Parameters: xgmi between two APUs, each direction; rate of a NIC.

node mi300ax4(xgmi = 64 GB/s, rate = 200 Gbps) {
  model "MI300A"
  gpus 4
  reduce 1590 GB/s
  mesh gpu[0-3] { bandwidth (xgmi); latency 0.7 us; kind xgmi }
  nic nic[0-3] { bandwidth (rate) }
  attach gpu[0-3] -> nic[0-3]
}
