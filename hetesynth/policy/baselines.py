"""What communication libraries do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BaselinesPolicy:
    """What communication libraries do."""
