"""hetesynth: verified collective communication schedules for heterogeneous GPU clusters."""

__version__ = "0.1.0"
