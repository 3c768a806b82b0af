"""How a threshold is declared: its value, its unit and the measurement that justifies it."""

from __future__ import annotations

from dataclasses import field
from typing import TypeVar

T = TypeVar("T")


def threshold(value: T, unit: str, why: str) -> T:
    """A field of a policy. ``unit``: of ``value``; ``why``: what it decides and what was measured, or that nothing
    was."""
    declared: T = field(default=value, metadata={"unit": unit, "why": why})
    return declared
