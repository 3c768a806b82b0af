"""Measurements of transfers and collectives to the figures of the cost model, with how sure they are.

In: the output of nccl-tests, OSU, perftest, nvbandwidth, or a CSV. Out: alpha, beta, gamma and copy rates of a
link class, and the text of a topology that states them. docs/calibration.md has the formulas.
"""
