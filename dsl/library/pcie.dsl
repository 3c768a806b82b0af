# Servers of eight GPUs without links of their own: NVIDIA L40S, RTX PRO 6000 Blackwell, GeForce RTX 5090, behind PCIe.
#
# PCIe: x16, line rate (raw): 31.5 GB/s each way of generation 4 (L40S data sheet), 63 of generation 5 (RTX PRO 6000
#   data sheet; RTX 5090: NVIDIA's specification as reviews quote it). NCCL counts 24 and 48. Two PCIe switches a CPU,
#   two GPUs each, an x16 uplink each: assumed, as boxes differ.
# CPUs: two, 22 GB/s between them (NCCL's figure of Intel's fourth generation; no data sheet states what is reached).
# NICs: one on each PCIe switch, of 200 Gbps behind generation 4 and of 400 Gbps behind 5; assumed.
# Latency: 1 us a switch of PCIe (NCCL's figure of a PCIe hop); between CPUs 1.5 us is an estimate.
# Reduce: 90 % of a third of 864 GB/s GDDR6 (L40S data sheet), of 1597 GB/s GDDR7 (RTX PRO 6000 Server data sheet) and
#   of 1792 GB/s GDDR7 (RTX 5090, the same): two reads and a write for each byte.
# Parameters: rate of a NIC, pcie of an x16 slot, socket between the CPUs, each direction.

node l40sx8(rate = 200 Gbps, pcie = 31.5 GB/s, socket = 22 GB/s) {
  model "L40S"
  gpus 8
  reduce 259 GB/s
  nic nic[0-3] { bandwidth (rate) }
  for i in 0-3 {
    pcie pcie[i] { ports gpu[(2*i)-(2*i+1)], nic[i]; bandwidth (pcie); latency 1 us }
  }
  cpu cpu0 { ports pcie[0-1]; bandwidth (pcie); latency 1 us }
  cpu cpu1 { ports pcie[2-3]; bandwidth (pcie); latency 1 us }
  upi cpu0 <-> cpu1 { bandwidth (socket); latency 1.5 us }
}

node rtxpro6000x8(rate = 400 Gbps, pcie = 63 GB/s, socket = 22 GB/s) {
  model "RTX PRO 6000"
  gpus 8
  reduce 479 GB/s
  nic nic[0-3] { bandwidth (rate) }
  for i in 0-3 {
    pcie pcie[i] { ports gpu[(2*i)-(2*i+1)], nic[i]; bandwidth (pcie); latency 1 us }
  }
  cpu cpu0 { ports pcie[0-1]; bandwidth (pcie); latency 1 us }
  cpu cpu1 { ports pcie[2-3]; bandwidth (pcie); latency 1 us }
  upi cpu0 <-> cpu1 { bandwidth (socket); latency 1.5 us }
}

node rtx5090x8(rate = 400 Gbps, pcie = 63 GB/s, socket = 22 GB/s) {
  model "RTX 5090"
  gpus 8
  reduce 538 GB/s
  nic nic[0-3] { bandwidth (rate) }
  for i in 0-3 {
    pcie pcie[i] { ports gpu[(2*i)-(2*i+1)], nic[i]; bandwidth (pcie); latency 1 us }
  }
  cpu cpu0 { ports pcie[0-1]; bandwidth (pcie); latency 1 us }
  cpu cpu1 { ports pcie[2-3]; bandwidth (pcie); latency 1 us }
  upi cpu0 <-> cpu1 { bandwidth (socket); latency 1.5 us }
}
