"""Schedules of given numbers of steps and rounds, and the frontier of both (SCCL, PPoPP 2021, section 3).

In: a problem, steps S and rounds R >= S. A step of r rounds carries r times the capacities. For each way to share
R rounds among S steps there is one model: a flow where every chunk is for one rank, else Z3's step model with all
laws, a reduction being reversed; an allreduce is a reduce-scatter and an allgather of half of both (SCCL 3.5).
Out: a schedule whose ticks are rounds, so that bounds and simulator need no other capacities, or what is known.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations, pairwise
from math import comb, inf
from typing import Literal

import numpy as np

from hetesynth.model.bound import CutWitness, PriceWitness
from hetesynth.model.deadline import Deadline, no_deadline
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.search import step_flow
from hetesynth.search.bounds.lower import lower_bound, reach
from hetesynth.search.collectives import DUAL, invert, split
from hetesynth.search.copy_problem import CopyProblem, without_useless
from hetesynth.search.interrupts import deferred
from hetesynth.search.smt.step_model import StepModel, every_law
from hetesynth.search.solve import Solution, Solver, bounds_of

FLOW_ROUNDS = 40  # of HiGHS for each flow
MOST_WAYS = 2_000  # to share rounds among steps, beyond which none is tried

Answer = Schedule | Literal["none", "unknown"]
"""A schedule; "none": there is proved to be none; "unknown": nothing is known, which is never read as none."""


def shares(rounds: int, steps: int) -> list[tuple[int, ...]]:
    """Return every way to give each of ``steps`` steps one or more of ``rounds`` rounds, the even ones first."""
    cuts = combinations(range(1, rounds), steps - 1)
    ways = [tuple(b - a for a, b in pairwise((0, *cut, rounds))) for cut in cuts]
    return sorted(ways, key=lambda way: (max(way) - min(way), way))


def spread(problem: Problem, steps: Schedule, rounds: tuple[int, ...]) -> Schedule | None:
    """Return ``steps`` with each step's transfers shared among its rounds; None: they do not fit into them."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import eye, hstack, kron

    tables, ticks, begin = CopyProblem(problem), list[Transfer](), 0
    capacity = np.array([resource.capacity for resource in tables.resources], dtype=np.float64)
    for number, of_step in zip(rounds, steps.steps(), strict=True):
        if not of_step:
            begin += number
            continue
        once = hstack([eye(len(of_step))] * number)
        carried = kron(eye(number), tables.use_matrix([t.link for t in of_step]))
        laws = LinearConstraint(once, 1, 1), LinearConstraint(carried, -np.inf, np.tile(capacity, number))
        size = number * len(of_step)
        answer = milp(np.zeros(size), constraints=laws, integrality=np.ones(size), bounds=Bounds(0, 1))
        if answer.x is None:
            return None
        for place in np.flatnonzero(answer.x > 0.5).tolist():
            tick, n = divmod(place, len(of_step))
            ticks.append(replace(of_step[n], start=begin + tick, end=begin + tick + 1))
        begin += number
    return Schedule.of(ticks, begin, rounds)


@dataclass(frozen=True)
class Rounds:
    """A search for schedules of given steps and rounds. ``solver``: finds those whose steps are one round each.
    ``units``: of Z3 for each model. After ``deadline`` all answers are "unknown"."""

    solver: Solver
    units: int = 20_000_000
    deadline: Deadline = field(default_factory=no_deadline)

    @property
    def left(self) -> float | None:
        """The seconds left, or None without a limit."""
        return None if self.deadline.at == inf else self.deadline.left()

    def schedule(self, problem: Problem, steps: int, rounds: int) -> Answer:
        """Return a schedule of ``problem`` in ``steps`` steps of ``rounds`` rounds together, or what is known."""
        if self.deadline.expired("rounds"):
            return "unknown"
        if problem.collective.name == "allreduce":
            first, second, join = split(problem)
            halves = [self.schedule(part, steps // 2, rounds // 2) for part in (first, second)]
            even = steps % 2 == 0 == rounds % 2
            if even and isinstance(halves[0], Schedule) and isinstance(halves[1], Schedule):
                return join(halves[0], halves[1])
            return "unknown"  # an allreduce need not be two phases
        if problem.collective.name in DUAL:
            dual, recover = invert(problem)
            answer = self.schedule(dual, steps, rounds)
            return recover(answer) if isinstance(answer, Schedule) else answer
        if steps == rounds:
            return self._alone(problem, steps)
        if lower_bound(problem, self.solver.policy.packing).steps > rounds:
            return "none"  # of its rounds steps can be made
        if comb(rounds - 1, steps - 1) > MOST_WAYS:
            return "unknown"
        answers = set[str]()
        for way in shares(rounds, steps):
            shared = (
                self._flow(problem, way) if step_flow.refuses(problem) is None else self._clauses(problem, way)
            )
            if isinstance(shared, Schedule):
                return shared
            answers.add(shared)
        return "unknown" if "unknown" in answers else "none"

    def _alone(self, problem: Problem, steps: int) -> Answer:
        """Return a schedule of ``steps`` steps of one round each, or what is known."""
        solver = replace(self.solver, budget=replace(self.solver.budget, seconds=self.left))
        solution = solver.solve(problem)
        if not isinstance(solution, Solution):
            return "unknown"
        if solution.schedule.makespan <= steps:
            return Schedule.of(solution.schedule.transfers, steps, (1,) * steps)
        return "none" if solution.bound.steps > steps else "unknown"

    def _flow(self, problem: Problem, way: tuple[int, ...]) -> Answer:
        flow = step_flow.StepFlow(problem, way)
        relaxed = flow.relaxed(self.left)
        if relaxed is not None and step_flow.stepped_bound(flow, relaxed[1]) is not None:
            return "none"
        whole = flow.whole(FLOW_ROUNDS, self.left)
        return (None if whole is None else spread(problem, whole, way)) or "unknown"

    def _clauses(self, problem: Problem, way: tuple[int, ...]) -> Answer:
        with deferred() as interrupted:
            model = StepModel(CopyProblem(problem), len(way), stop=interrupted, rounds=way)
            for law in every_law(model.tables):
                model.add(law)
            answer = model.check((), self.units, self.left)
        if answer != "sat":
            return "none" if answer == "unsat" else "unknown"
        return spread(problem, without_useless(problem, model.transfers(), len(way)), way) or "unknown"


@dataclass(frozen=True)
class Point:
    """A schedule of ``chunks`` chunks per rank in ``rounds``; ``open``: how many points with as many steps and
    fewer rounds a chunk have an unknown answer."""

    chunks: int
    rounds: int
    schedule: Schedule
    problem: Problem
    open: int

    @property
    def steps(self) -> int:
        """The steps: messages one after the other."""
        return len(self.schedule.rounds)


def fewest_rounds(problem: Problem) -> Fraction:
    """Return a lower bound on the rounds of a schedule, by the resources that its chunks need (SCCL 3.1, b_l)."""
    if problem.collective.name == "allreduce":
        return sum((fewest_rounds(part) for part in split(problem)[:2]), Fraction(0))
    witnesses = (bound.witness for bound in bounds_of(problem))
    ratios = [
        Fraction(w.needed, w.capacity) if isinstance(w, CutWitness) else Fraction(w.paid, w.earned)
        for w in witnesses
        if isinstance(w, CutWitness | PriceWitness)
    ]
    return max(ratios, default=Fraction(0))


def frontier(problem_of: Callable[[int], Problem], most: int, extra: int, rounds: Rounds) -> Iterator[Point]:
    """Yield the points of algorithm 1 of SCCL with up to ``most`` chunks per rank and ``extra`` rounds more than
    steps (of an allreduce in each phase): from the diameter up, the fewest rounds per chunk that are found for
    each number of steps, until the resources allow no fewer."""
    one = problem_of(1)
    phases = split(one)[:2] if one.collective.name == "allreduce" else (one,)
    steps, least = sum(reach(phase).farthest.hops for phase in phases), fewest_rounds(one)
    best: Fraction | None = None
    stride = len(phases)
    while best is None or (best > least and Fraction(steps, most) < best):
        numbers = range(steps, steps + extra * stride + 1, stride)
        asked = ((Fraction(r, c), c, r) for c in range(1, most + 1) for r in numbers)
        unanswered = 0
        for ratio, chunks, number in sorted(asked):
            if rounds.deadline.expired("pareto"):
                return
            if ratio < least or (best is not None and ratio >= best):
                continue
            problem = problem_of(chunks)
            answer = rounds.schedule(problem, steps, number)
            if isinstance(answer, Schedule):
                yield Point(chunks, number, answer, problem, unanswered)
                best = ratio
                break
            unanswered += answer == "unknown"
        steps += stride
        if best is None and steps > 1_000:
            return
