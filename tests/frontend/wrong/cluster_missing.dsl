import h20
