"""A run of the compiler: what is asked for, what it may spend, and who is told; a run for each root, where all are
asked for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from hetesynth.engine.request import Request
from hetesynth.model.cegis_trace import CegisTrace
from hetesynth.model.deadline import ClockDecisions, Deadline, now
from hetesynth.model.decisions import Decisions
from hetesynth.model.problem import Budget
from hetesynth.search.search import Progress, no_progress


@dataclass
class PhaseTimer:
    """The wall seconds of a run by phase."""

    phases: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the seconds spent in the context to phase ``name``."""
        started = now()
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + now() - started

    @property
    def total(self) -> float:
        """The seconds of all phases together."""
        return sum(self.phases.values())


@dataclass(frozen=True)
class Compilation:
    """A run. ``budget``: what this run spends, with its own record of what the clock decided. ``every_root``:
    there are runs for the other roots as well. ``deadline``: when the run should have ended. ``decisions``: what
    was tried, and why not. ``trace``: what CEGIS did. ``improved``: is handed each better ``Synthesis``."""

    request: Request
    budget: Budget
    progress: Progress = no_progress
    every_root: bool = False
    timer: PhaseTimer = field(default_factory=PhaseTimer)
    decisions: Decisions = field(default_factory=Decisions)
    trace: CegisTrace = field(default_factory=CegisTrace)
    improved: Callable[[Any], None] | None = None
    deadline: Deadline = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "deadline", self.budget.deadline())

    @property
    def budget_left(self) -> Budget:
        """The part of ``budget`` left until ``deadline``; without a time limit if another process ends the run."""
        if self.improved is not None:
            return replace(self.budget, seconds=None)
        seconds = self.budget.seconds
        return self.budget if seconds is None else self.budget.left_after(seconds - self.deadline.left())


def compilation(
    request: Request,
    progress: Progress = no_progress,
    budget: Budget | None = None,
    decisions: Decisions | None = None,
    trace: CegisTrace | None = None,
    *,
    every_root: bool = False,
    improved: Callable[[Any], None] | None = None,
) -> Compilation:
    """Return a run for ``request`` that spends ``budget``, by default that of the request."""
    spent = replace(budget or request.budget, clock_decisions=ClockDecisions())
    record = Decisions() if decisions is None else decisions
    steps = CegisTrace() if trace is None else trace
    return Compilation(request, spent, progress, every_root, decisions=record, trace=steps, improved=improved)
