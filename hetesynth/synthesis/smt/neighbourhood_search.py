"""Shortening a schedule through windows: CEGIS (HeteCCL 5.2) where the whole model is too large for a solver.

In: a search that has a verified schedule. Out: shorter schedules, offered one after the other. A step is cut out
of the schedule; its deliveries are free, all others frozen where they are. Z3 sees the free ones only: a frozen
delivery is a literal that uses up room and lets its receiver hold. An unsatisfiable core over these literals says
which of them were to blame; they are freed as well, with the deliveries their chunk took on its way, until a
schedule is found, the window is too large, or the budget is spent. Proves nothing: a window that fails says
nothing of the problem.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from hetesynth.errors import InternalError
from hetesynth.model.schedule import Schedule
from hetesynth.model.verdict import Violation
from hetesynth.synthesis.copy_problem import CopyProblem, without_useless
from hetesynth.synthesis.greedy.justify import early, late, without_step
from hetesynth.synthesis.interrupts import deferred
from hetesynth.synthesis.search import OutOfTime, Search
from hetesynth.synthesis.smt.neighbourhood_choice import Neighbourhood
from hetesynth.synthesis.smt.neighbourhood_model import Delivery, NeighbourhoodModel, first_steps, size
from hetesynth.synthesis.smt.step_model import Law

RLIMIT = 40_000_000  # solver resource units for all windows of one search
CHECK = 3_000_000  # for one check; a wider window is often easier than a hard one
UNANSWERED = 2  # checks without an answer after which another step is tried
MAX_WINDOW = 40_000  # Send variables of a window
CUTS = 6  # steps to try to cut out of one schedule


def improve(search: Search, *, rlimit: int = RLIMIT, share: float = 1.0) -> None:
    """Cut the best schedule by a step as often as that succeeds, until the bound is met.

    ``share``: of the time that is left, how much may be used.
    """
    left = search.remaining()
    until = None if left is None else search.elapsed() + share * left
    with deferred() as interrupted:
        pane = _Pane(search, CopyProblem(search.problem), search.pause(interrupted), interrupted, rlimit, until)
        try:
            pane.pause()
            while not search.done and pane.shorten():
                pass
        except OutOfTime:
            return


@dataclass
class _Pane:
    """One search through windows: what they share."""

    search: Search
    tables: CopyProblem
    pause: Callable[[], None]
    stop: threading.Event
    rlimit: int
    until: float | None  # seconds of the search at which the share of time is used up
    exhausted: bool = False
    rng: Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = Random(self.search.budget.seed)

    def _pause(self) -> None:
        """OutOfTime or KeyboardInterrupt when it is to end."""
        self.pause()
        if self.until is not None and self.search.elapsed() >= self.until:
            self.search.cuts.note("lns")
            raise OutOfTime

    def _seconds(self) -> float | None:
        return None if self.until is None else self.until - self.search.elapsed()

    def shorten(self) -> bool:
        """Whether a schedule with a step less was found."""
        best = self.search.best
        if best is None or best.makespan < 2:
            return False
        if self.search.offer(Schedule.of(early(self.tables, best).transfers), "lns"):
            return True
        steps = best.makespan - 1
        for schedule, step in _cuts(self.tables, best):
            self.search.progress(f"windows: {steps} steps?", best.makespan)
            found = self._widen(schedule, step)
            if found is not None:
                return self.search.offer(found, "lns")
            if self.rlimit <= 0 or self.exhausted:
                self.search.solver_spent = not self.exhausted
                return False
        return False

    def _widen(self, schedule: Schedule, step: int) -> Schedule | None:
        """Look through ever larger windows that start at ``step``, cut out of ``schedule``."""
        steps = schedule.makespan - 1
        placed, free = without_step(self.tables.problem, schedule, step)
        around = Neighbourhood(self.tables, schedule, placed, self.rng)
        unanswered = 0
        while unanswered < UNANSWERED:
            window = free | (around.relays(free) - placed.keys() if placed else around.everyone())
            ready = first_steps(self.tables, placed, window)
            if size(self.tables, steps, window, ready) > MAX_WINDOW:
                return None
            self._pause()
            model = NeighbourhoodModel(self.tables, steps, placed, window, ready, self._pause, self.stop)
            for law in model.full():
                model.add(law)
            found = self._refine(model)
            self.rlimit -= model.spent
            if isinstance(found, Schedule):
                return found
            if self.rlimit <= 0:
                return None
            unanswered += found is None
            if not placed and found is not None:
                self.exhausted = True  # everything was free: there is no such schedule
                return None
            blamed = around.wider(free, found) or set(placed)
            free = free | blamed
            placed = {d: place for d, place in placed.items() if d not in blamed}
        return None

    def _refine(self, model: NeighbourhoodModel) -> Schedule | list[Delivery] | None:
        """CEGIS on one window: a schedule, whom to blame, or None when the budget ended first."""
        problem = self.tables.problem
        while True:
            self._pause()
            answer = model.check(max(1, min(CHECK, self.rlimit - model.spent)), self._seconds())
            if answer == "unknown":
                if model.clauses.timed_out:
                    self.search.cuts.note("lns")
                return None
            if answer == "unsat":
                return model.core()
            proposal = without_useless(problem, model.transfers(), model.steps)
            violations = self.search.oracle(problem, proposal)
            if not violations:
                return proposal
            laws = [law for violation in violations if (law := _law(self.tables, violation)) is not None]
            if not sum(model.add(law) for law in laws):
                raise InternalError(f"the solver broke a law it was told: {violations[0].message}")


def _law(tables: CopyProblem, violation: Violation) -> Law | None:
    """The law that ``violation`` broke, resources as ``tables`` numbers them; None: another one implies it."""
    if violation.kind == "overloaded":
        for r, resource in enumerate(tables.resources):
            if resource.name == violation.resource:
                return Law("capacity", r)
        return None
    if violation.kind == "too-many-peers" and violation.rank is not None:
        return Law("peers", violation.rank)
    if violation.kind == "not-exclusive" and violation.chunk is not None and violation.rank is not None:
        return Law("exclusive", violation.chunk, violation.rank)
    raise InternalError(f"the window allowed what it must not: {violation.message}")


def _cuts(tables: CopyProblem, schedule: Schedule) -> Iterator[tuple[Schedule, int]]:
    """Schedules as long, with a step to cut out of each: the ends first, then where least is delivered."""
    first = early(tables, schedule)
    yield first, schedule.makespan - 1
    yield late(tables, first), 0
    counted = sorted((len(step), t) for t, step in enumerate(first.steps()[:-1]))
    for _, t in counted[: CUTS - 2]:
        yield first, t
