"""How exactly a program is simulated."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SimulatePolicy:
    """How exactly a program is simulated."""
