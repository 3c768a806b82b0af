"""What strategy auto, which counts steps, tries after what."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepsPolicy:
    """What strategy auto, which counts steps, tries after what."""
