"""From a schedule to a program, and to MSCCL XML."""
