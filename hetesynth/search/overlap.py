"""Two phases that overlap: what an allreduce sends as soon as it can, and not when a phase begins.

In: a schedule of reductions to one rank and copies from there, phase after phase. Out: the same transfers over the
same links in order, each at the first step at which what it carries is there and its resources have room (list
scheduling, Graham 1966): a chunk that is complete early is copied while others are still added up. Then the same
backwards in time and forwards again (Li and Willis 1992), while that saves steps.
"""

from collections import defaultdict
from collections.abc import Sequence

from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.search import Search


def overlapped(problem: Problem, schedule: Schedule) -> Schedule:
    """``schedule``, of as many steps or fewer."""
    transfers = schedule.transfers
    came: dict[tuple[int, int], list[int]] = defaultdict(list)  # chunk, rank: what arrived so far
    before: list[list[int]] = []  # all that comes to a sender of a chunk before it sends must be there
    after: list[list[int]] = [[] for _ in transfers]
    for i, t in enumerate(transfers):
        arc = problem.arcs[t.link]
        before.append([j for j in came[t.chunk, arc.src] if transfers[j].end <= t.start])
        for j in before[i]:
            after[j].append(i)
        came[t.chunk, arc.dst].append(i)
    tables = CopyProblem(problem)
    kept = starts = [t.start for t in transfers]
    best = schedule.makespan
    while max(starts := _earliest(tables, transfers, before, after, starts), default=best) + 1 < best:
        kept, best = starts, max(starts) + 1
        starts = [-s for s in _earliest(tables, transfers, after, before, [-s for s in starts])]
    return Schedule.of(Transfer(s, s + 1, t.chunk, t.link, t.reduce) for s, t in zip(kept, transfers, strict=True))


def _earliest(
    tables: CopyProblem,
    transfers: Sequence[Transfer],
    before: Sequence[Sequence[int]],
    after: Sequence[Sequence[int]],
    order: Sequence[int],
) -> list[int]:
    """The first step of each transfer that is free, with those first that are first in ``order``."""
    problem = tables.problem
    waits, starts = [len(causes) for causes in before], [0] * len(transfers)
    ready = [i for i, number in enumerate(waits) if number == 0]
    step = 0
    while ready:
        free = [resource.capacity for resource in tables.resources]
        landing: set[tuple[int, int]] = set()
        later: list[int] = []
        for i in sorted(ready, key=lambda i: (order[i], i)):
            t = transfers[i]
            place, used = (t.chunk, problem.arcs[t.link].dst), tables.resources_of[t.link]
            if not all(free[r] for r in used) or (problem.exclusive_reduction and place in landing):
                later.append(i)
                continue
            for r in used:
                free[r] -= 1
            landing.add(place)
            starts[i] = step
            for j in after[i]:
                waits[j] -= 1
                if waits[j] == 0:
                    later.append(j)
        ready = later
        step += 1
    return starts


def improve(search: Search) -> None:
    """Offer the best schedule overlapped."""
    if search.best is not None:
        search.offer(overlapped(search.problem, search.best), "overlap")
