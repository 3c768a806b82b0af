"""Programs as one CUDA kernel on NCCL's device API; the same interpreter on threads of a CPU."""
