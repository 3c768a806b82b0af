# Four pods of two H20 servers with 4 GPUs each (HeteCCL, section 7; sizes are ours). The NICs of a pod meet in a leaf,
# the leaves in a spine: 2 servers x 4 NICs x 50 GB/s are 400 GB/s, of which the uplink carries half.

import h20

pod rack {
  instance a[0-1] = h20x4
  fabric leaf { join a*.nic*; latency 0.6 us }
}

cluster h20_pods {
  chunk 16 MB
  instance r[0-3] = rack
  switch spine { ports r*.leaf; bandwidth 200 GB/s; latency 0.7 us; kind uplink }
}
