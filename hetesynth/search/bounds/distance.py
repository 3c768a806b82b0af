"""Bounds from hops alone: a chunk cannot travel faster than one link a step.

In: a problem. Out: the largest hop distance a chunk must cover (SCCL 3.1, the latency bound), who cannot be
reached at all, and for problems in which a rank passes a chunk to one peer a step (HeteCCL eq. 8 in the dual) the
doubling bound.

Reachability runs for all origins at once: a rank's state is a bit set of the origins that reach it within h hops.
"""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.model.bound import DistanceWitness, LowerBound
from hetesynth.model.problem import Problem


@dataclass(frozen=True, slots=True)
class Reach:
    """``farthest``: the (chunk, rank, hops) that takes longest. ``stranded``: a (chunk, rank) with no path."""

    farthest: DistanceWitness
    stranded: tuple[int, int] | None


def reach(problem: Problem) -> Reach:
    """How far chunks must travel. In a reduction every contribution must reach the chunk's targets."""
    origins = _Origins(problem)
    neighbours: list[set[int]] = [set() for _ in range(problem.ranks)]
    for arc in problem.arcs:
        neighbours[arc.dst].add(arc.src)
    before = [sorted(senders) for senders in neighbours]
    state = origins.start()
    farthest = DistanceWitness(0, 0, 0)
    hops = 0
    while True:
        missing = [needs & ~has for needs, has in zip(origins.needs, state, strict=True)]
        rank = next((r for r, bits in enumerate(missing) if bits), None)
        if rank is None:
            return Reach(farthest, None)
        late = origins.chunk_for((missing[rank] & -missing[rank]).bit_length() - 1, rank), rank
        hops += 1
        farthest = DistanceWitness(*late, hops)
        after = list(state)
        for v in range(problem.ranks):
            if state[v] != origins.everything:
                bits = state[v]
                for u in before[v]:
                    bits |= state[u]
                after[v] = bits
        if after == state:
            return Reach(farthest, late)
        state = after


class _Origins:
    """The distinct places chunks start from, one bit each; who needs which."""

    def __init__(self, problem: Problem) -> None:
        self.ranks = problem.ranks
        self.collective = problem.collective
        self.sets: list[frozenset[int]] = []
        self.needs = [0] * problem.ranks
        index: dict[frozenset[int], int] = {}
        collective = problem.collective
        done: set[tuple[frozenset[int], frozenset[int]]] = set()
        for pre, post in zip(collective.pre, collective.post, strict=True):
            if (pre, post) in done:
                continue
            done.add((pre, post))
            for origin in [frozenset({r}) for r in sorted(pre)] if collective.reduces else [pre]:
                if origin not in index:
                    index[origin] = len(self.sets)
                    self.sets.append(origin)
                for rank in post:
                    self.needs[rank] |= 1 << index[origin]
        self.everything = (1 << len(self.sets)) - 1

    def chunk_for(self, bit: int, rank: int) -> int:
        """The first chunk that ``rank`` wants from origin ``bit``."""
        origin, collective = self.sets[bit], self.collective
        chunks = (k for k, post in enumerate(collective.post) if rank in post)
        return next(
            k
            for k in chunks
            if (origin <= collective.pre[k] if collective.reduces else origin == collective.pre[k])
        )

    def start(self) -> list[int]:
        """The origins each rank belongs to."""
        state = [0] * self.ranks
        for bit, origin in enumerate(self.sets):
            for rank in origin:
                state[rank] |= 1 << bit
        return state


def distance_bound(problem: Problem) -> LowerBound:
    """No chunk arrives sooner than its distance."""
    worst = reach(problem).farthest
    links = f"{worst.hops} link{'' if worst.hops == 1 else 's'}"
    return LowerBound(worst.hops, "distance", f"chunk {worst.chunk} is {links} away from rank {worst.rank}", worst)


def doubling_bound(problem: Problem) -> LowerBound | None:
    """With one send (or one addition) of a chunk per rank and step, its holders at most double each step."""
    if not problem.exclusive_reduction:
        return None
    collective = problem.collective
    spread = max(max(len(pre), len(post)) for pre, post in zip(collective.pre, collective.post, strict=True))
    steps = max(0, spread - 1).bit_length()
    proof = f"one addition per chunk, rank and step: {spread} contributions need {steps} doublings (eq. 8)"
    return LowerBound(steps, "doubling", proof)
