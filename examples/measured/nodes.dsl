# Servers of published runs that the library of node types does not have. Where a page does not state the hardware, it
# is that of the product it names.
#
#   abci_v: a compute node V of ABCI: four V100, every pair joined by two NVLink2 links, two EDR NICs of 100 Gbps.
#   abci_a: a compute node A of ABCI 2.0: eight A100 on NVSwitch, four HDR NICs of 200 Gbps.
#   hgx_v100x16: DGX-2: sixteen V100 on NVSwitch, six NVLink2 links a GPU, eight NICs of 100 Gbps.
#   mi350x8: MI350X or MI355X: links of 76.8 GB/s each way (AMD data sheet: 153.6 both ways together), eight NICs of 400 Gbps.
#   gb10: DGX Spark: one GPU, one port of 200 Gbps.
# Latencies as in the library of node types.

node abci_v {
  model "V100"
  gpus 4
  mesh gpu[0-3] { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }
  nic nic[0-1] { bandwidth 100 Gbps }
  attach gpu[0-1] -> nic0
  attach gpu[2-3] -> nic1
}

node abci_a {
  model "A100"
  gpus 8
  switch nvswitch { ports gpu[0-7]; bandwidth 300 GB/s; latency 0.7 us; kind nvlink }
  nic nic[0-3] { bandwidth 200 Gbps }
  for i in 0-3 { attach gpu[(2*i)-(2*i+1)] -> nic[i] }
}

node hgx_v100x16 {
  model "V100"
  gpus 16
  switch nvswitch { ports gpu[0-15]; bandwidth 150 GB/s; latency 0.7 us; kind nvlink }
  nic nic[0-7] { bandwidth 100 Gbps }
  for i in 0-7 { attach gpu[(2*i)-(2*i+1)] -> nic[i] }
}

node mi350x8 {
  model "MI350X"
  gpus 8
  mesh gpu[0-7] { bandwidth 76.8 GB/s; latency 0.7 us; kind xgmi }
  nic nic[0-7] { bandwidth 400 Gbps }
  attach gpu[0-7] -> nic[0-7]
}

node gb10 {
  model "GB10"
  gpus 1
  nic nic0 { bandwidth 200 Gbps }
  attach gpu0 -> nic0
}
