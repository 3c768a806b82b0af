"""From schedules to programs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoweringPolicy:
    """From schedules to programs."""
