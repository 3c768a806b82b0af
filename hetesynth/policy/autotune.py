"""Which candidates a tuning run tries for a size, in which order, and which programs it times."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AutotunePolicy:
    """Which candidates a tuning run tries for a size, in which order, and which programs it times."""
