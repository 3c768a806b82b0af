"""Greedy rounds and direct exchange."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GreedyPolicy:
    """Greedy rounds and direct exchange."""
