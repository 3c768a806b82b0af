"""From programs back to schedules."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LiftingPolicy:
    """From programs back to schedules."""
