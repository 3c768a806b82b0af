"""Balanced trees, tree packing and the step LP."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TreesPolicy:
    """Balanced trees, tree packing and the step LP."""
