# The cluster of topo.dsl, where the figures come from, in the form of HeteCCL's Appendix A.
define nodenum = 2
define node1 = 4
define model = V100
define reduce = 270 GB/s
define bandwidth = {mesh => [((0,1,2,3) -> (25,2))],
  nic => [((0) >-> (8,1)), ((1) >-> (8,1)), ((2) >-> (8,1)), ((3) >-> (8,1))]}
define latency = {mesh => 0.7 us}
define linktype = {mesh => nvlink}
define failure = {gpu => (3)}
define node2 = 8
define model = V100
define reduce = 270 GB/s
define bandwidth = {mesh => [((0,1,2,3) -> (25,2)), ((4,5,6,7) -> (25,2))],
  nic => [((0,1) >-> (12.5,1)), ((2,3) >-> (12.5,1)), ((4,5) >-> (12.5,1)), ((6,7) >-> (12.5,1))],
  pcie => [((0,1) >-> (16,1)), ((2,3) >-> (16,1)), ((4,5) >-> (16,1)), ((6,7) >-> (16,1))],
  switch => [((0,1,2,3), (4,5,6,7) >-> (48,1))]}
define latency = {mesh => 0.7 us, switch => 1.5 us}
define linktype = {mesh => nvlink, switch => upi}
define failure = {gpu => (7)}
define internode = (node1, node2)
define interlatency = {switch => 1.3 us}
