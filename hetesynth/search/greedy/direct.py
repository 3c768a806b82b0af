"""Direct exchange: every chunk crosses one link, from where it starts to where it is wanted.

In: a copying problem in which every chunk has one origin and one target, joined by a link (alltoall, gather,
scatter on most clusters). Out: schedules as long as the busiest resource needs, where that is possible. A step is
filled by linear programming: as many chunks as fit, and no resource may be left with more than the steps after
this one can carry. Where resources nest (GPU port within NIC within server) the program has integral solutions.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.policy import DEFAULT, Policy
from hetesynth.search.copy_problem import CopyProblem, excess
from hetesynth.search.search import Search, Strategy

Ints = NDArray[np.int64]

LIMITED = 1  # scipy's status of a program that its time limit ended; that of a node limit is another


def refuses(problem: Problem, policy: Policy = DEFAULT) -> str | None:
    """Why the problem is no direct exchange, or None."""
    return _obstacle(problem, _jobs(problem))


def _obstacle(problem: Problem, jobs: list[tuple[int, int]]) -> str | None:
    if not jobs:
        return "some chunk has several targets, or no link leads to its target"
    return excess(problem, (a for _, a in jobs))


def improve(search: Search) -> None:
    """Offer a direct schedule that is no longer than the best, if there is one to be had: it needs no relays."""
    jobs = _jobs(search.problem)
    if _obstacle(search.problem, jobs) is not None:
        return
    policy = search.policy.greedy
    exchange = _Exchange(search.problem, jobs)
    for steps in range(exchange.busiest, exchange.busiest + policy.direct_more_steps + 1):
        worse = search.best is not None and steps > search.best.makespan
        if worse or len(jobs) * steps > policy.direct_work or search.out_of_time():
            return
        schedule = exchange.schedule(steps, search)
        if schedule is not None:
            search.offer(schedule, "direct", ties=True)
            return


def _jobs(problem: Problem) -> list[tuple[int, int]]:
    """(chunk, arc) for every chunk that has to move, parallel links in turn; empty where a chunk has no link."""
    arcs: dict[tuple[int, int], list[int]] = defaultdict(list)
    for a, arc in enumerate(problem.arcs):
        arcs[arc.src, arc.dst].append(a)
    turn: dict[tuple[int, int], int] = defaultdict(int)
    jobs: list[tuple[int, int]] = []
    for k, (pre, post) in enumerate(zip(problem.collective.pre, problem.collective.post, strict=True)):
        targets = post - pre
        if not targets:
            continue
        if len(pre) > 1 or len(targets) > 1:
            return []
        pair = (min(pre), min(targets))
        links = [a for a in arcs[pair] for _ in range(problem.arcs[a].capacity)]
        if not links:
            return []
        jobs.append((k, links[turn[pair] % len(links)]))
        turn[pair] += 1
    return jobs


@dataclass
class _Exchange:
    """The chunks, and the resources their links draw from."""

    problem: Problem
    jobs: list[tuple[int, int]]

    def __post_init__(self) -> None:
        self.tables = CopyProblem(self.problem)
        self.capacity: Ints = np.array([r.capacity for r in self.tables.resources], dtype=np.int64)
        self.uses = [self.tables.resources_of[a] for _, a in self.jobs]
        self.load: Ints = np.zeros(len(self.capacity), dtype=np.int64)
        for used in self.uses:
            self.load[used] += 1
        self.busiest = int(np.max(-(-self.load // self.capacity)))

    def schedule(self, steps: int, search: Search) -> Schedule | None:
        """A schedule of ``steps`` steps, or None when some step could not be filled."""
        left = list(range(len(self.jobs)))
        load = self.load.copy()
        transfers: list[Transfer] = []
        for step in range(steps):
            if search.out_of_time():
                return None
            remaining = search.remaining()
            greedy = search.policy.greedy
            seconds = None if remaining is None else max(greedy.direct_least_seconds, remaining)
            chosen, in_time = self._fill(left, load, steps - step - 1, seconds, greedy.direct_nodes)
            if not in_time:
                search.clock_decisions.note("direct exchange")
            if chosen is None:
                return None
            for job in chosen:
                chunk, arc = self.jobs[job]
                transfers.append(Transfer(step, step + 1, chunk, arc))
                load[self.uses[job]] -= 1
            sent = set(chosen)
            left = [job for job in left if job not in sent]
            if not left:
                return Schedule.of(transfers)
        return None

    def _fill(
        self, left: list[int], load: Ints, steps_after: int, seconds: float | None, nodes: int
    ) -> tuple[list[int] | None, bool]:  # fmt: skip
        """The chunks of one step: as many as fit, such that the rest fits into the steps after it; and whether the
        program ended by itself."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        matrix = self.tables.use_matrix([self.jobs[job][1] for job in left])
        least = np.maximum(0, load - self.capacity * steps_after)
        solution = milp(
            -np.ones(len(left)),
            constraints=LinearConstraint(matrix, least, self.capacity),
            integrality=np.ones(len(left)),
            bounds=Bounds(0, 1),
            options={"node_limit": nodes} | ({} if seconds is None else {"time_limit": seconds}),
        )
        in_time = solution.status != LIMITED
        if solution.x is None:
            return None, in_time
        return [job for job, x in zip(left, solution.x, strict=True) if x > 0.5], in_time


STRATEGY = Strategy("direct", improve, refuses)
