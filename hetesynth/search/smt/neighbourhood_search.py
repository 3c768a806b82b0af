"""Neighbourhood search: CEGIS (HeteCCL 5.2) on a part of a schedule, where the monolithic model is too large.

In: a search that has a verified schedule. Out: shorter schedules, offered one after the other. A step is removed
from the schedule; its deliveries are free, all others frozen where they are. Z3 sees the free ones only: a frozen
delivery is a literal that uses up room and lets its receiver hold. An unsatisfiable core over these literals says
which of them were to blame; they are freed as well, with the deliveries their chunk took on its way, until a
schedule is found, the neighbourhood is too large, or the budget is spent. Proves nothing: a neighbourhood
without a schedule says nothing of the problem.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from hetesynth.errors import InternalError
from hetesynth.model.schedule import Schedule
from hetesynth.model.verdict import Violation
from hetesynth.policy.smt import SmtPolicy
from hetesynth.search.copy_problem import CopyProblem, without_useless
from hetesynth.search.greedy.justify import early, late, without_step
from hetesynth.search.interrupts import deferred
from hetesynth.search.search import OutOfTime, Search
from hetesynth.search.smt.neighbourhood_choice import Neighbourhood
from hetesynth.search.smt.neighbourhood_model import Delivery, NeighbourhoodModel, first_steps, size
from hetesynth.search.smt.step_model import Law


def improve(search: Search, *, rlimit: int | None = None, share: float = 1.0) -> None:
    """Cut the best schedule by a step as often as that succeeds, until the bound is met.

    ``rlimit``: solver resource units; None: those of the policy. ``share``: of the time that is
    left, how much may be used.
    """
    left = search.remaining()
    units = search.policy.smt.neighbourhood_rlimit if rlimit is None else rlimit
    until = None if left is None else search.elapsed() + share * left
    with deferred() as interrupted:
        stop_check = search.stop_check(interrupted)
        shared = _Shared(search, CopyProblem(search.problem), stop_check, interrupted, units, until)
        try:
            stop_check()
            while not search.done and shared.shorten():
                pass
        except OutOfTime:
            return


@dataclass
class _Shared:
    """What the neighbourhoods of one search share."""

    search: Search
    tables: CopyProblem
    stop_check: Callable[[], None]
    stop: threading.Event
    rlimit: int
    until: float | None  # seconds of the search at which the share of time is used up
    exhausted: bool = False
    rng: Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = Random(self.search.budget.seed)

    def _stop_if_due(self) -> None:
        """OutOfTime or KeyboardInterrupt when the search is to end."""
        self.stop_check()
        if self.until is not None and self.search.elapsed() >= self.until:
            self.search.clock_decisions.note("lns")
            raise OutOfTime

    @property
    def policy(self) -> SmtPolicy:
        """Of the search."""
        return self.search.policy.smt

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
        for schedule, step in _removed_steps(self.tables, best, self.policy.neighbourhood_removed_steps):
            self.search.progress(f"lns: {steps} steps?", best.makespan)
            shorter = self._shorter(schedule, step)
            if shorter is not None:
                return self.search.offer(shorter, "lns")
            if self.rlimit <= 0 or self.exhausted:
                self.search.solver_spent = not self.exhausted
                return False
        return False

    def _shorter(self, schedule: Schedule, step: int) -> Schedule | None:
        """A schedule without ``step`` of ``schedule``, looked for in ever larger neighbourhoods of the step."""
        steps = schedule.makespan - 1
        placed, free = without_step(self.tables.problem, schedule, step)
        choice = Neighbourhood(self.tables, schedule, placed, self.rng, self.policy)
        unanswered = 0
        while unanswered < self.policy.neighbourhood_unanswered:
            neighbourhood = free | (choice.relays(free) - placed.keys() if placed else choice.everyone())
            ready = first_steps(self.tables, placed, neighbourhood)
            if size(self.tables, steps, neighbourhood, ready) > self.policy.neighbourhood_sends:
                return None
            self._stop_if_due()
            model = NeighbourhoodModel(
                self.tables, steps, placed, neighbourhood, ready, self._stop_if_due, self.stop
            )
            for law in model.full():
                model.add(law)
            answer = self._refine(model)
            self.rlimit -= model.spent
            if isinstance(answer, Schedule):
                return answer
            if self.rlimit <= 0:
                return None
            unanswered += answer is None
            if not placed and answer is not None:
                self.exhausted = True  # everything was free: there is no such schedule
                return None
            added = choice.grown_by(free, answer) or set(placed)
            free = free | added
            placed = {d: place for d, place in placed.items() if d not in added}
        return None

    def _refine(self, model: NeighbourhoodModel) -> Schedule | list[Delivery] | None:
        """CEGIS on one neighbourhood: a schedule, the deliveries to blame, or None when the budget ended first."""
        problem = self.tables.problem
        while True:
            self._stop_if_due()
            answer = model.check(
                max(1, min(self.policy.neighbourhood_check_rlimit, self.rlimit - model.spent)), self._seconds()
            )
            if answer == "unknown":
                if model.clauses.timed_out:
                    self.search.clock_decisions.note("lns")
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
    raise InternalError(f"the neighbourhood model allowed what it must not: {violation.message}")


def _removed_steps(tables: CopyProblem, schedule: Schedule, number: int) -> Iterator[tuple[Schedule, int]]:
    """Up to ``number`` schedules as long, with a step to remove from each: the ends first, then where least is
    delivered."""
    first = early(tables, schedule)
    yield first, schedule.makespan - 1
    yield late(tables, first), 0
    counted = sorted((len(step), t) for t, step in enumerate(first.steps()[:-1]))
    for _, t in counted[: number - 2]:
        yield first, t
