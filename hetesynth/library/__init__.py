"""What a communication library (NCCL, RCCL) would do on a cluster, and how long it would take."""
