"""Measurements of transfers and collectives to figures of the cost model: docs/calibration.md has the formulas."""
