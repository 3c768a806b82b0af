import h2o
cluster c { instance a = h20x4 }
