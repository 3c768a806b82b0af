define nodenum = 3
define bandwidth = {direct => [((0,1) -> (25,2))]}
define node1 = 2
define bandwith = {direct => [((0,1) -> (25,2))]}
define bandwidth = {direct => [((0,1) >-> (25,2))], direkt => [((0,1) -> (25,2))], switch => [((0,1) >-> (0,1,2))]}
define node2 = 2
define bandwidth = {direct => [((0,5) -> (25,2)), ((1,0) -> (0,1)), (0,1)]}
define latency = {direct => 0.7}
define internode = (node1, node3)
define interbandwidth = 8
