# The cluster of topo.dsl, where the figures come from, in the form of HeteCCL's Appendix A.
define nodenum = 3
define chunk = 16 MB
define node1 = 8
define model = H20
define reduce = 1200 GB/s
define bandwidth = {port => [((0,1,2,3,4,5,6,7) -> (450,1))],
  nic => [((0,1) >-> (50,1)), ((2,3) >-> (50,1)), ((4,5) >-> (50,1)), ((6,7) >-> (50,1))]}
define latency = {port => 0.7 us}
define linktype = {port => nvlink}
define node2 = node1
define node3 = 4
define model = H20
define reduce = 1200 GB/s
define bandwidth = {port => [((0,1,2,3) -> (450,1))],
  nic => [((0) >-> (50,1)), ((1) >-> (50,1)), ((2) >-> (50,1)), ((3) >-> (50,1))]}
define latency = {port => 0.7 us}
define linktype = {port => nvlink}
define internode = (node1, node2, node3)
define interlatency = {switch => 1.3 us}
