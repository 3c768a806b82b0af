node n { gpus 4; link gpu[0-3] <-> gpu[1-3,0] { bandwidth 25 GB/s; latency 1 us } }
cluster ring { instance a = n }
