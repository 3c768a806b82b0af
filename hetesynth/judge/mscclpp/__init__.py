"""MSCCL++ plans read, checked and executed."""
