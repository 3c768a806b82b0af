"""Direct exchange: every chunk crosses one link, from where it starts to where it is wanted.

In: a copying problem in which every chunk has one origin and one target, joined by a link (alltoall, gather,
scatter on most clusters). Out: schedules as long as the busiest resource needs, where that is possible. A step is
filled by linear programming: as many chunks as fit, and no resource may be left with more than the steps after
this one can carry. Where resources nest (GPU port within NIC within server) the program has integral solutions.
"""

from collections import defaultdict

import numpy as np

from hetesynth.machine_code import Ints
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.policy import DEFAULT, Policy
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.search import Search, Strategy, excess


def refuses(problem: Problem, policy: Policy = DEFAULT) -> str | None:
    """Return why the problem is no direct exchange, or None."""
    jobs = _jobs(problem)
    if not jobs:
        return "some chunk has several targets, or no link leads to its target"
    return excess(problem, (a for _, a in jobs))


def improve(search: Search) -> None:
    """Offer a direct schedule that is no longer than the best, if there is one to be had: it needs no relays."""
    jobs, tables = _jobs(search.problem), CopyProblem(search.problem)
    capacity: Ints = np.array([r.capacity for r in tables.resources], dtype=np.int64)
    load: Ints = np.zeros(len(capacity), dtype=np.int64)
    for _, arc in jobs:
        load[tables.resources_of[arc]] += 1
    busiest = int(np.max(-(-load // capacity)))
    for steps in range(busiest, busiest + 3):
        worse = search.best is not None and steps > search.best.makespan
        if worse or len(jobs) * steps > 600_000 or search.out_of_time():  # more takes longer than greedy rounds
            return
        schedule = _schedule(search, tables, jobs, load.copy(), capacity, steps)
        if schedule is not None:
            search.offer(schedule, "direct", ties=True)
            return


def _jobs(problem: Problem) -> list[tuple[int, int]]:
    """Return (chunk, arc) of each chunk that has to move, parallel links in turn; empty if a chunk has no link."""
    arcs: dict[tuple[int, int], list[int]] = defaultdict(list)
    for a, arc in enumerate(problem.arcs):
        arcs[arc.src, arc.dst] += [a] * arc.capacity
    turn: dict[tuple[int, int], int] = defaultdict(int)
    jobs: list[tuple[int, int]] = []
    for k, (pre, post) in enumerate(problem.collective.ends):
        targets = post - pre
        if not targets:
            continue
        if len(pre) > 1 or len(targets) > 1:
            return []
        pair = (min(pre), min(targets))
        links = arcs[pair]
        if not links:
            return []
        jobs.append((k, links[turn[pair] % len(links)]))
        turn[pair] += 1
    return jobs


def _schedule(
    search: Search, tables: CopyProblem, left: list[tuple[int, int]], load: Ints, capacity: Ints, steps: int
) -> Schedule | None:
    """A schedule of ``steps`` steps, or None when some step could not be filled."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    transfers: list[Transfer] = []
    for step in range(steps):
        if search.out_of_time():
            return None
        remaining = search.remaining()
        # as many chunks as fit, such that the rest fits into the steps after this one
        least = np.maximum(0, load - capacity * (steps - step - 1))
        solution = milp(
            -np.ones(len(left)),
            constraints=LinearConstraint(tables.use_matrix([arc for _, arc in left]), least, capacity),
            integrality=np.ones(len(left)),
            bounds=Bounds(0, 1),
            options={"node_limit": 200} | ({} if remaining is None else {"time_limit": max(1e-3, remaining)}),
        )
        if solution.status == 1:  # its time limit ended it; the status of a node limit is another
            search.clock_decisions.note("direct exchange")
        if solution.x is None:
            return None
        for (chunk, arc), x in zip(left, solution.x, strict=True):
            if x > 0.5:
                transfers.append(Transfer(step, step + 1, chunk, arc))
                load[tables.resources_of[arc]] -= 1
        left = [job for job, x in zip(left, solution.x, strict=True) if x <= 0.5]
        if not left:
            return Schedule.of(transfers)
    return None


STRATEGY = Strategy("direct", improve, refuses)
