define nodenum = 1
cluster c { chunk 1 MB }
