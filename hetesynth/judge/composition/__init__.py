"""Compositions of schedules of pods, expanded to every transfer and judged."""
