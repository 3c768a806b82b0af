cluster c { chunk 1 MB }
