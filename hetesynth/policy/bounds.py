"""How much work goes into lower bounds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BoundsPolicy:
    """How much work goes into lower bounds."""
