"""Strategies that count seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimedPolicy:
    """Strategies that count seconds."""
