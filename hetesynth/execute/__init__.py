"""Programs and plans executed with real bytes, thread block by thread block, over MPI."""
