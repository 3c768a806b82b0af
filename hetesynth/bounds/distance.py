"""Bounds from hops alone: a chunk cannot travel faster than one link a step.

In: a problem. Out: the largest hop distance a chunk must cover (SCCL 3.1, the latency bound), and for problems
in which a rank passes a chunk to one peer a step (HeteCCL eq. 8 in the dual) the doubling bound.
"""

from __future__ import annotations

from collections import deque

from hetesynth.model.bound import DistanceWitness, LowerBound
from hetesynth.model.problem import Problem


def hops_to(problem: Problem, starts: frozenset[int]) -> list[int | None]:
    """Links on the shortest path from any of ``starts`` to each rank; None where there is no path."""
    reached: list[int | None] = [None] * problem.ranks
    after: list[list[int]] = [[] for _ in range(problem.ranks)]
    for arc in problem.arcs:
        after[arc.src].append(arc.dst)
    queue = deque(sorted(starts))
    for rank in starts:
        reached[rank] = 0
    while queue:
        at = queue.popleft()
        for to in after[at]:
            if reached[to] is None:
                reached[to] = (reached[at] or 0) + 1
                queue.append(to)
    return reached


def distance_bound(problem: Problem) -> LowerBound:
    """No chunk arrives sooner than its distance. A reduction counts from its farthest contributor."""
    worst = DistanceWitness(0, 0, 0)
    known: dict[frozenset[int], list[int | None]] = {}
    collective = problem.collective
    for k, (pre, post) in enumerate(zip(collective.pre, collective.post, strict=True)):
        origins = [frozenset({r}) for r in sorted(pre)] if collective.reduces else [pre]
        for origin in origins:
            if origin not in known:
                known[origin] = hops_to(problem, origin)
            farthest = max(sorted(post), key=lambda r: known[origin][r] or 0)
            hops = known[origin][farthest] or 0
            if hops > worst.hops:
                worst = DistanceWitness(k, farthest, hops)
        if collective.reduces and k >= problem.ranks:
            break  # later chunks start and end at the same ranks as these
    proof = f"chunk {worst.chunk} is {worst.hops} links away from rank {worst.rank}"
    return LowerBound(worst.hops, "distance", proof, worst)


def doubling_bound(problem: Problem) -> LowerBound | None:
    """With one send (or one addition) of a chunk per rank and step, its holders at most double each step."""
    if not problem.exclusive_reduction:
        return None
    collective = problem.collective
    spread = max(max(len(pre), len(post)) for pre, post in zip(collective.pre, collective.post, strict=True))
    steps = max(0, spread - 1).bit_length()
    proof = f"one addition per chunk, rank and step: {spread} contributions need {steps} doublings (eq. 8)"
    return LowerBound(steps, "doubling", proof)
