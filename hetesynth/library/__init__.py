"""What a communication library (NCCL, RCCL) would do on a cluster (``machine_of``, ``chosen``), and how long it
would take. docs/reality.md compares that with published runs of nccl-tests and rccl-tests."""
