define nodenum = 1
define node1 = 2
define bandwidth = {direct => (0,1) -> (25,2)}
