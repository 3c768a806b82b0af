"""Wall seconds of a command by phase."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hetesynth.compile.request import Request
from hetesynth.model.deadline import now
from hetesynth.model.problem import Budget

if TYPE_CHECKING:
    from hetesynth.compile.least_time import LeastTime

Warn = Callable[[str], None]


@dataclass
class PhaseTimer:
    """Wall seconds by phase, and what these were expected to be at least."""

    phases: dict[str, float] = field(default_factory=dict)
    least: LeastTime | None = None

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

    def beyond(self, budget: Budget) -> float:
        """Seconds spent beyond ``budget``."""
        return 0.0 if budget.seconds is None else max(0.0, self.total - budget.seconds)

    def expect(self, request: Request, ranks: int, warn: Warn, budget: Budget) -> None:
        """Work out the least time of ``request``, and say so where ``budget`` is less."""
        from hetesynth.compile.least_time import least_time, warning

        self.least = least_time(request, ranks, budget=budget)
        text = warning(request, ranks, self.least, budget=budget)
        if text is not None:
            warn(text)


def no_warning(text: str) -> None:
    """A listener that ignores warnings."""
