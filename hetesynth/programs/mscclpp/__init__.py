"""From a schedule to a plan, and to MSCCL++ JSON."""
