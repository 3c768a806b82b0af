# HeteCCL, Appendix A, Figure 10, with its line breaks. Two brackets the figure leaves open are closed:
# `]` in its line 5 and `)` in its line 7. Bandwidths are GB/s a link and one direction.
define nodenum = 2
define node1 = 2
define bandwidth = {direct => [((0,1) -> (25,2))
  , ((1,0) -> (25,2))]}
define node2 = 4
define bandwidth = {switch => [(((0,1), (2,3)
  >-> (16,1)))], direct => [((0,1) -> (25,2))
  , ((1,0) -> (25,2)), ((2,3) -> (25,2)), ((3,2)
  -> (25,2))]}
define internode = (node1, node2)
define interbandwidth = {switch => [(((0,1)
  , (0,1,2,3) >-> (8,1)))]}
