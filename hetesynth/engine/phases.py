"""Wall seconds of a command by phase."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from hetesynth.model.deadline import now


@dataclass
class PhaseTimer:
    """Wall seconds by phase."""

    phases: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time inside to phase ``name``."""
        started = now()
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + now() - started

    @property
    def total(self) -> float:
        """All phases together."""
        return sum(self.phases.values())
