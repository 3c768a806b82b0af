"""MSCCL XML read, linted and executed."""
