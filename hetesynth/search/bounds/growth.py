"""The growth bound: how fast a chunk can spread over the parts of a cluster.

In: a copying problem with a chunk that everybody wants. Split the ranks into parts (servers). A part that held
the chunk a step ago may be full of it and sends on at most what can leave a part; a rank that has just received it
in a new part sends at most what can leave a rank. So the parts reached grow no faster than

    S(0) = min(E r, x h),  R(0) = r,  R(t+1) = min(m, R(t) + S(t)),  S(t+1) = E R(t) + min(E, x) S(t)

with r parts and h ranks holding it at first, E and x the most that leaves any part and any rank. In the last step
every rank of a part not yet reached must receive it from outside: the smallest parts left need as many arrivals as
they have ranks, and no part takes more than can enter it.
"""

from __future__ import annotations

from collections import defaultdict

from hetesynth.model.bound import GrowthWitness, LowerBound
from hetesynth.model.problem import Problem
from hetesynth.policy.bounds import BoundsPolicy
from hetesynth.search.bounds.cover import Coverer
from hetesynth.search.bounds.regions import Region, partitions


def growth_bound(problem: Problem, policy: BoundsPolicy) -> LowerBound | None:
    """The best growth bound over the candidate partitions, or None where no single source serves everybody."""
    chunk = _wanted_by_all(problem)
    if chunk is None or len(problem.arcs) > policy.growth_arcs:
        return None
    coverer = Coverer(problem)
    best: LowerBound | None = None
    for parts in partitions(problem, policy):
        home = {r: p for p, part in enumerate(parts) for r in part}
        between = [a for a, arc in enumerate(problem.arcs) if home[arc.src] != home[arc.dst]]
        out_of = _covers(coverer, len(parts), between, [home[problem.arcs[a].src] for a in between])
        into = _covers(coverer, len(parts), between, [home[problem.arcs[a].dst] for a in between])
        rank_out = _covers(coverer, problem.ranks, between, [problem.arcs[a].src for a in between])
        most = (max(c for _, c in out_of), max(c for _, c in rank_out))
        steps = _steps(problem, chunk, parts, most, [c for _, c in into])
        if best is None or steps > best.steps:
            names = tuple(tuple(n for n, _ in side) for side in (out_of, into, rank_out))
            witness = GrowthWitness(chunk, tuple(parts), names[0], names[1], names[2])
            what = "ranks" if len(parts) == problem.ranks else "groups of ranks"
            proof = f"spreading over {len(parts)} {what}, of which at most {most[0]} chunks leave one in a step"
            best = LowerBound(steps, "growth", proof, witness)
    return best


def _wanted_by_all(problem: Problem) -> int | None:
    if len(set(problem.collective.pre)) > 1:
        return None  # several sources: the flow into one destination asks for more
    for k, (pre, post) in enumerate(zip(problem.collective.pre, problem.collective.post, strict=True)):
        if len(post) == problem.ranks > len(pre):
            return k
    return None


Named = tuple[tuple[str, ...], int]


def _covers(coverer: Coverer, groups: int, arcs: list[int], group_of: list[int]) -> list[Named]:
    """For each group, resources that carry all of its ``arcs`` (arc i belongs to group_of[i]), and how much."""
    members: dict[int, list[int]] = defaultdict(list)
    for a, group in zip(arcs, group_of, strict=True):
        members[group].append(a)
    covers = [coverer.cover(members[g]) for g in range(groups)]
    return [(cover.resources, cover.capacity) for cover in covers]


def _steps(problem: Problem, chunk: int, parts: list[Region], most: tuple[int, int], into: list[int]) -> int:
    """The least number of steps that the recurrence leaves open."""
    holders = problem.collective.pre[chunk]
    reached = sum(not holders.isdisjoint(part) for part in parts)
    slow = sum(len(part) > enters and holders.isdisjoint(part) for part, enters in zip(parts, into, strict=True))
    sizes = sorted(len(part) for part in parts if holders.isdisjoint(part))
    first = reached
    sends = min(most[0] * reached, most[1] * len(holders))
    steps = 1
    while True:
        left = len(parts) - reached
        if sum(sizes[:left]) <= sends and reached - first >= slow:
            return steps
        if sends == 0:
            return steps  # nothing spreads: the caller has seen that every rank can be reached
        reached, sends = min(len(parts), reached + sends), most[0] * reached + min(most) * sends
        steps += 1
