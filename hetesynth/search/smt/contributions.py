"""An allreduce in one model: which contributions the value of each chunk at each rank has, step by step.

In: an allreduce and a number of steps. Variables: ``send_k_a_t`` (chunk k crosses link a in step t), ``copied_k_r_t``
(what comes to rank r replaces its value, and is not added), ``part_k_c_r_t`` (before step t the value at rank r has
the contribution of rank c), ``new_k_c_r_t`` (step t brings it), ``brings_k_c_a_t`` (link a does). The laws are those
of ``judge/schedule``: what is found passes it, and where nothing is there is no such schedule. Distance makes
constants of variables, and of schedules that differ in the names of chunks one is asked for.
"""

import threading
from collections.abc import Callable, Sequence

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

UNITS = 600_000_000  # of the solver's resources, for all numbers of steps together
MOST_CLAUSES = 1_500_000  # past which nothing is found nor proved in half a minute

Term = int | bool  # a literal, or what is known of it


def negated(term: Term) -> Term:
    """The opposite of ``term``."""
    return not term if isinstance(term, bool) else -term


def size(problem: Problem, steps: int) -> int:
    """About how many clauses the model has, before it is built."""
    return 4 * len(problem.collective.chunks) * problem.ranks * len(problem.arcs) * steps


class Contributions:
    """The model of ``problem`` with ``steps`` steps. ``stop_check`` is called now and then while it is built, and
    may raise; ``stop`` ends a check."""

    def __init__(
        self, problem: Problem, steps: int, stop_check: Callable[[], None], stop: threading.Event | None = None
    ) -> None:
        self.problem, self.steps, self.tables = problem, steps, CopyProblem(problem)
        self.clauses = Clauses(stop)
        self.grows = self.clauses.variable("grows_0")
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
        """Whether the value of chunk ``k`` at ``r`` has the contribution of ``c`` before step ``t``."""
        if t == 0 or t == self.steps:
            return t > 0 or c == r
        return self.tables.hops[c][r] <= t and self.clauses.variable(f"part_{k}_{c}_{r}_{t}")

    def _arrivals(self, k: int, r: int, t: int, now: Sequence[Sequence[Term]], then: Sequence[Term]) -> None:
        """What the value at ``r`` becomes in step ``t``: what it was and what is added, or what replaces it."""
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
            state(negated(had), has, copied)
            state(-self.grows, negated(had), has)
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
        """All chunks are alike: they are numbered as they first come to the rank that takes in the fewest."""
        arcs, into = self.problem.arcs, self.tables.into
        rank = min(range(self.problem.ranks), key=lambda r: (sum(arcs[a].capacity for a in into[r]), r))
        for k in range(1, len(self.problem.collective.chunks)):
            for t in range(self.steps):
                before = [self.send[k - 1, a, u] for a in into[rank] for u in range(t + 1)]
                for a in into[rank]:
                    self.clauses.clause(-self.send[k, a, t], *before)

    def _state(self, *terms: Term) -> None:
        """One of ``terms`` holds."""
        if True not in terms:
            self.clauses.clause(*(term for term in terms if term is not False))

    def _at_most(self, variables: Sequence[int], limit: int) -> None:
        if len(variables) > limit:
            self.clauses.at_most(variables, limit)

    def check(self, rlimit: int, seconds: float | None) -> Answer:
        """Decide: first whether values that only grow will do, with a third of ``rlimit`` resource units."""
        answer = self.clauses.check([self.grows], rlimit // 3, seconds)
        return answer if answer == "sat" else self.clauses.check((), rlimit - rlimit // 3, seconds)

    def schedule(self) -> Schedule:
        """That of the last model."""
        true = set(self.clauses.true([*self.send.values(), *self.copied.values()]))
        sent = [place for place, variable in self.send.items() if variable in true]
        ends = [(k, a, t, self.copied[k, self.problem.arcs[a].dst, t] not in true) for k, a, t in sent]
        return Schedule.of([Transfer(t, t + 1, k, a, added) for k, a, t, added in ends], self.steps)


def decided(search: Search, steps: int, rlimit: int) -> tuple[Schedule | Answer, Contributions | None]:
    """A schedule of ``steps`` steps, ``unsat`` with the model that says so, or ``unknown``."""
    with deferred() as interrupted:
        try:
            model = Contributions(search.problem, steps, search.stop_check(interrupted), interrupted)
        except OutOfTime:
            return "unknown", None
        answer = model.check(rlimit, search.remaining())
        if answer == "sat":
            return model.schedule(), model
    if model.clauses.timed_out:
        search.clock_decisions.note("solver")
    return answer, model


def too_large(problem: Problem, steps: int) -> str | None:
    """Why the model is more than can be decided, or None."""
    clauses = size(problem, steps)
    return f"{clauses:,} clauses are more than {MOST_CLAUSES:,}" if clauses > MOST_CLAUSES else None


def improve(search: Search) -> LowerBound | None:
    """Ask for ever more steps from the bound on while there are proofs; where one is not known, for ever fewer than
    the best schedule has. Returns the last bound that was proved."""
    proved: LowerBound | None = None
    left = scaled(UNITS, search.policy.smt.units_in_auto)
    steps, falling = max(1, search.target), False
    while search.best is None or search.target <= steps < search.best.makespan:
        if left <= 0 or search.out_of_time() or too_large(search.problem, steps) is not None:
            search.solver_spent = True
            break
        search.progress(f"contributions: {steps} steps?", search.best.makespan if search.best else None)
        answer, model = decided(search, steps, left // 3)
        left -= model.clauses.spent if model is not None else left
        if isinstance(answer, Schedule):
            search.offer(answer, "contributions")
        elif answer == "unsat" and model is not None:  # covers every smaller number as well
            proved = unsat_bound(steps, model.clauses.smt2())
            search.target = proved.steps
        else:
            search.solver_spent = True
            if falling:
                break
            falling = search.best is not None
        steps = search.best.makespan - 1 if falling and search.best is not None else steps + 1
    return proved


def _refuses(problem: Problem, policy: Policy) -> str | None:
    return too_large(problem, 1)


STRATEGY = Strategy("contributions", improve, _refuses, whole=True)
