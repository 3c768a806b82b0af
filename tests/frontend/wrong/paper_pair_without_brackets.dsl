define nodenum = 1
define node1 = 2
define bandwidth = {switch => (0),(1) >-> (25,2)}
