"""How long a chunk keeps a thread block busy, by the link that it takes: what decides which links share one.

In: a problem, and where they are known the seconds of a chunk between two ranks. Out: the times of a chunk from
and to each peer of a rank. Without seconds a chunk takes 1 / C(u, v) steps, C as far as resources allow it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from hetesynth.model.problem import Problem
from hetesynth.model.topology import Rank

Pair = tuple[Rank, Rank]


@dataclass(frozen=True)
class ChunkTimes:
    """Of one rank, in a unit that is the same for all peers: ``send`` and ``receive`` of a chunk by peer."""

    send: Mapping[Rank, Fraction]
    receive: Mapping[Rank, Fraction]


NO_TIMES = ChunkTimes({}, {})
"""Where no connections share."""


def chunk_times(problem: Problem, seconds: Mapping[Pair, float]) -> list[ChunkTimes]:
    """By rank; ``seconds``: of a chunk from one rank to another, empty where rates are not known."""
    times = {pair: Fraction(of_pair) for pair, of_pair in seconds.items()} or _steps(problem)
    send: list[dict[Rank, Fraction]] = [{} for _ in range(problem.ranks)]
    receive: list[dict[Rank, Fraction]] = [{} for _ in range(problem.ranks)]
    for (src, dst), time in times.items():
        send[src][dst] = time
        receive[dst][src] = time
    return [ChunkTimes(*of_rank) for of_rank in zip(send, receive, strict=True)]


def _steps(problem: Problem) -> dict[Pair, Fraction]:
    """Over all links of a pair together."""
    capacity = [arc.capacity for arc in problem.arcs]
    for resource in problem.resources:
        for a in resource.arcs:
            capacity[a] = min(capacity[a], resource.capacity)
    of_pair: dict[Pair, int] = defaultdict(int)
    for arc, chunks in zip(problem.arcs, capacity, strict=True):
        of_pair[arc.src, arc.dst] += chunks
    return {pair: Fraction(1, chunks) for pair, chunks in of_pair.items()}
