"""Steady-state trees: the optimal packing in whole chunks, and schedules along it."""
