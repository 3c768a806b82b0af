"""An allreduce in one model: which contributions the value of each chunk at each rank has, step by step.

In: an allreduce and a number of steps. Variables: ``send_k_a_t`` (chunk k crosses link a in step t),
``copied_k_r_t`` (what comes to rank r replaces its value, and is not added), ``part_k_c_r_t`` (before step t the
value at rank r has the contribution of rank c), ``new_k_c_r_t`` (step t brings it), ``brings_k_c_a_t`` (link a).
The laws are those of ``judge/schedule``: what is found passes it, and where nothing is there is no such schedule.
Distance makes constants of variables, and of schedules that differ in the names of chunks one is asked for.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from hetesynth.model.bound import LowerBound
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.policy import Policy
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.effort import scaled
from hetesynth.search.interrupts import deferred
from hetesynth.search.search import OutOfTime, Search, Strategy, unsat_bound
from hetesynth.search.smt.clauses import Answer, Clauses
from hetesynth.search.smt.step_model import few_peers

UNITS = 120_000_000  # of the solver's resources for all models of a search: half a minute
UNITS_A_CLAUSE = 100  # of the first check of a model; to state a clause takes as long as 26

Term = int | bool  # a literal, or what is known of it


def negated(term: Term) -> Term:
    """The opposite of ``term``."""
    return not term if isinstance(term, bool) else -term


def size(problem: Problem, steps: int) -> int:
    """Return about how many clauses a model has, before it is built."""
    return 4 * len(problem.collective.chunks) * problem.ranks * len(problem.arcs) * steps


class Contributions:
    """The model of ``problem`` with ``steps`` steps. ``stop_check`` is called now and then while it is built, and
    may raise; ``stop`` ends a check. ``grows``: no rank loses a contribution; quicker, and proves nothing."""

    def __init__(
        self,
        problem: Problem,
        steps: int,
        stop_check: Callable[[], None] = lambda: None,
        stop: threading.Event | None = None,
        *,
        grows: bool = False,
    ) -> None:
        self.problem, self.steps, self.tables, self.grows = problem, steps, CopyProblem(problem), grows
        self.clauses = Clauses(stop)
        chunks, ranks = range(len(problem.collective.chunks)), range(problem.ranks)
        self.send: dict[tuple[int, int, int], int] = {}
        self.copied: dict[tuple[int, int, int], int] = {}
        for k in chunks:
            for t in range(steps):
                for a in range(len(problem.arcs)):
                    self.send[k, a, t] = self.clauses.variable(f"send_{k}_{a}_{t}")
                for r in ranks:
                    self.copied[k, r, t] = self.clauses.variable(f"copied_{k}_{r}_{t}")
        for k in chunks:
            value = [[[self._part(k, c, r, t) for c in ranks] for r in ranks] for t in range(steps + 1)]
            for t in range(steps):
                stop_check()
                for r in ranks:
                    self._arrivals(k, r, t, value[t], value[t + 1][r])
        for resource in problem.resources:
            for t in range(steps):
                self._at_most([self.send[k, a, t] for k in chunks for a in resource.arcs], resource.capacity)
        if problem.max_peers is not None:
            for r in ranks:
                for sending in (True, False):
                    few_peers(self.clauses, self.tables, self.send, r, sending=sending)
        self._chunks_in_order()

    def _part(self, k: int, c: int, r: int, t: int) -> Term:
        """Return a term: the value of chunk ``k`` at ``r`` has the contribution of ``c`` before step ``t``."""
        if t == 0 or t == self.steps:
            return t > 0 or c == r
        return self.tables.hops[c][r] <= t and self.clauses.variable(f"part_{k}_{c}_{r}_{t}")

    def _arrivals(self, k: int, r: int, t: int, now: Sequence[Sequence[Term]], then: Sequence[Term]) -> None:
        """State what the value at ``r`` becomes in step ``t``: what it was and is added, or what replaces it."""
        state, exclusive, problem = self._state, self.problem.exclusive_reduction, self.problem
        copied, into = self.copied[k, r, t], self.tables.into[r]
        sends = [self.send[k, a, t] for a in into]
        state(-copied, *sends)
        if exclusive:  # one addition, or one replacement
            self._at_most(sends, 1)
        else:
            for i, send in enumerate(sends):
                for other in sends[:i]:
                    state(-copied, -send, -other)
        new: list[Term] = []
        for c in range(problem.ranks):
            had, has = now[r][c], then[c]
            state(negated(had), has, not self.grows and copied)
            if had is not True and has is not False:
                new.append(self.clauses.variable(f"new_{k}_{c}_{r}_{t}"))
                state(negated(new[-1]), has)
                state(negated(new[-1]), negated(had))
            causes: list[Term] = []
            for a, send in zip(into, sends, strict=True):
                there = now[problem.arcs[a].src][c]
                state(-send, negated(there), has)
                state(-send, negated(there), negated(had), copied)
                state(-send, -copied, there, negated(has))
                if exclusive:
                    state(-send, there, had, negated(has))
                elif there is not False:
                    brings = self.clauses.variable(f"brings_{k}_{c}_{a}_{t}")
                    causes.append(brings)
                    state(-brings, send)
                    state(-brings, there)
                    state(brings, -send, negated(there))
            self._at_most([cause for cause in causes if not isinstance(cause, bool)], 1)
            state(had, negated(has), *(sends if exclusive else causes))
        state(-copied, *new)

    def _chunks_in_order(self) -> None:
        """Number the chunks, which are alike, as they first come to the rank that takes in the fewest."""
        arcs, into = self.problem.arcs, self.tables.into
        rank = min(range(self.problem.ranks), key=lambda r: (sum(arcs[a].capacity for a in into[r]), r))
        for k in range(1, len(self.problem.collective.chunks)):
            for t in range(self.steps):
                before = [self.send[k - 1, a, u] for a in into[rank] for u in range(t + 1)]
                for a in into[rank]:
                    self.clauses.clause(-self.send[k, a, t], *before)

    def _state(self, *terms: Term) -> None:
        """State that at least one of ``terms`` holds."""
        if not any(term is True for term in terms):  # 1 == True, and 1 is a variable
            self.clauses.clause(*(term for term in terms if term is not False))

    def _at_most(self, variables: Sequence[int], limit: int) -> None:
        if len(variables) > limit:
            self.clauses.at_most(variables, limit)

    def schedule(self) -> Schedule:
        """Return the last model's schedule, without additions to a value that is replaced before it is needed."""
        true = set(self.clauses.true([*self.send.values(), *self.copied.values()]))
        needed = {(k, r) for k in range(len(self.problem.collective.chunks)) for r in range(self.problem.ranks)}
        kept: list[Transfer] = []
        sent = sorted((t, k, a) for (k, a, t), variable in self.send.items() if variable in true)
        for t, step in groupby(reversed(sent), key=lambda place: place[0]):
            ends = [(k, a, self.problem.arcs[a].dst) for _, k, a in step]
            came = [(k, a, r, self.copied[k, r, t] not in true) for k, a, r in ends]
            landing = [place for place in came if not place[3] or (place[0], place[2]) in needed]
            needed -= {(k, r) for k, _, r, added in landing if not added}
            needed |= {(k, self.problem.arcs[a].src) for k, a, _, _ in landing}
            kept += [Transfer(t, t + 1, k, a, added) for k, a, _, added in landing]
        return Schedule.of(kept, self.steps)


def too_large(problem: Problem, steps: int, share: float) -> str | None:
    """Return the reason why the model takes too long for the units that there are, or None."""
    clauses, most = size(problem, steps), scaled(UNITS, share) // UNITS_A_CLAUSE
    return f"{clauses:,} clauses are more than {most:,}" if clauses > most else None


@dataclass
class _Checks:
    """The checks of a search. ``units``: solver resource units that are left; ``proved``: the last bound. A solver
    that ran out of units is not asked again: Z3 may have lost what it was told."""

    search: Search
    units: int
    stop: threading.Event
    proved: LowerBound | None = None

    def answer(self, steps: int, effort: int, *, grows: bool = False) -> Answer:
        """Return ``sat`` if a schedule of ``steps`` steps exists, and offer it; keep a proof of ``unsat``."""
        search = self.search
        units = min(UNITS_A_CLAUSE * effort * size(search.problem, steps), self.units)
        if units < UNITS_A_CLAUSE * size(search.problem, steps):
            return "unknown"
        search.progress(f"contributions: {steps} steps?", search.best.makespan if search.best else None)
        model = Contributions(search.problem, steps, search.stop_check(self.stop), self.stop, grows=grows)
        answer = model.clauses.check((), units, search.remaining())
        self.units -= model.clauses.spent
        if answer == "sat":
            search.offer(model.schedule(), "contributions")
        elif answer == "unsat" and not grows:  # covers every smaller number as well
            self.proved = unsat_bound(steps, model.clauses.smt2())
            search.target = self.proved.steps
        elif model.clauses.timed_out:
            search.clock_decisions.note("solver")
            raise OutOfTime
        return answer


def improve(search: Search, share: float) -> LowerBound | None:
    """Ask for one step fewer than the best schedule has, and for as many as the bound says, with ever more units,
    until both are one number or the units are spent. Returns the last bound that was proved."""
    with deferred() as interrupted:
        checks, effort, asked = _Checks(search, scaled(UNITS, share), interrupted), 1, -1
        try:
            while not search.done and checks.units != asked:
                asked, steps = checks.units, max(1, search.target)
                while search.best is None and checks.answer(steps, 16) != "unknown":
                    steps += 1
                for grows in (True, False):
                    while search.best is not None and not search.done:
                        if checks.answer(search.best.makespan - 1, effort, grows=grows) != "sat":
                            break
                while not search.done and checks.answer(search.target, effort) != "unknown":
                    pass
                effort *= 4
        except OutOfTime:
            pass
    search.solver_spent = not search.done
    return checks.proved


def joined(search: Search) -> LowerBound | None:
    """Return the bound, if any, that ``improve`` proves within the share of ``auto``."""
    return improve(search, search.policy.smt.units_in_auto)


def _stated(search: Search) -> LowerBound | None:
    return improve(search, search.policy.smt.units)


def _refuses(problem: Problem, policy: Policy) -> str | None:
    if problem.collective.name != "allreduce":
        return "only of an allreduce the contributions are worth a model"
    return too_large(problem, 1, policy.smt.units)


STRATEGY = Strategy("contributions", _stated, _refuses, whole=True)
