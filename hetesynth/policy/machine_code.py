"""When a kernel is compiled and when it is interpreted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MachineCodePolicy:
    """When a kernel is compiled and when it is interpreted."""
