"""Two phases that overlap: what an allreduce sends as soon as it can, and not when a phase begins.

In: a schedule of reductions to one rank and copies from there, phase after phase. Out: the same transfers over the
same links, each at the first step at which what it carries is there and its resources have room, earlier transfers
first (list scheduling, Graham 1966). A chunk that is complete early is copied while others are still added up.
"""

from collections import defaultdict

from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.search import Search


def overlapped(problem: Problem, schedule: Schedule) -> Schedule:
    """``schedule``, of as many steps or fewer."""
    tables, transfers = CopyProblem(problem), schedule.transfers
    came: dict[tuple[int, int], list[int]] = defaultdict(list)  # chunk, rank: what arrived so far
    waits: list[int] = []
    feeds: dict[int, list[int]] = defaultdict(list)
    for i, t in enumerate(transfers):  # all that comes to a sender of a chunk before it sends must be there
        arc = problem.arcs[t.link]
        causes = [j for j in came[t.chunk, arc.src] if transfers[j].end <= t.start]
        waits.append(len(causes))
        for j in causes:
            feeds[j].append(i)
        came[t.chunk, arc.dst].append(i)
    ready = [i for i, number in enumerate(waits) if number == 0]
    placed: list[Transfer] = []
    step = 0
    while ready:
        free = [resource.capacity for resource in tables.resources]
        landing: set[tuple[int, int]] = set()
        later: list[int] = []
        for i in sorted(ready):
            t = transfers[i]
            place = t.chunk, problem.arcs[t.link].dst
            used = tables.resources_of[t.link]
            if all(free[r] for r in used) and (place not in landing or not problem.exclusive_reduction):
                for r in used:
                    free[r] -= 1
                landing.add(place)
                placed.append(Transfer(step, step + 1, t.chunk, t.link, t.reduce))
                for j in feeds[i]:
                    waits[j] -= 1
                    if waits[j] == 0:
                        later.append(j)
            else:
                later.append(i)
        ready = later
        step += 1
    return Schedule.of(placed)


def improve(search: Search) -> None:
    """Offer the best schedule overlapped."""
    if search.best is not None:
        search.offer(overlapped(search.problem, search.best), "overlap")
