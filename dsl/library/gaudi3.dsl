# Intel Gaudi 3 servers (eight accelerators on one universal base board).
#
# Ethernet inside: 21 of the 24 ports of 200 Gbps that an accelerator has, three to every other (Intel Gaudi 3 white
#   paper; spec): 75 GB/s each way for a pair. There is no switch.
# NICs: the other three ports, Ethernet too, 600 Gbps per accelerator (white paper and data sheet; spec).
# Latency: 1.3 us, that of a network in TE-CCL; no source states one of Gaudi's ports.
# Reduce: 1110 GB/s, 90 % of a third of 3.7 TB/s HBM2e (white paper): two reads and a write for each byte.

node gaudi3x8 {
  model "Gaudi3"
  gpus 8
  reduce 1110 GB/s
  mesh gpu[0-7] { bandwidth 200 Gbps x 3; latency 1.3 us; kind ethernet }
  nic nic[0-7] { bandwidth 200 Gbps x 3 }
  attach gpu[0-7] -> nic[0-7]
}
