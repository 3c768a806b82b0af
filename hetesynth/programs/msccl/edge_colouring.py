"""Connections -> channels, spread evenly: of every rank's connections each channel gets as many, or one more.

In: (source, destination) of each connection, no two alike, and how many peers a channel takes. Out: a channel for
each. Taking the lowest channel with room, one after the other, strands ranks that have nearly as many peers as
thread blocks: they end with a send on one channel and a receive on another, which no thread block serves both.

Each rank stands for two vertices, one that sends and one that receives, and each connection is an edge. Edges are
halved along Euler walks, on which every second edge goes to the other half (Gabow 1976, Using Euler partitions to
edge color bipartite multigraphs), until a part has few enough at every vertex.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hetesynth.model.topology import Rank

Edge = tuple[Rank, Rank]


def evenly_spread_channels(edges: Sequence[Edge], max_peers: int) -> list[int]:
    """The channel of every edge; on each a rank sends to, and receives from, at most ``max_peers`` others."""
    channel = [0] * len(edges)
    parts = [list(range(len(edges)))]
    while max((_degree(edges, part) for part in parts), default=0) > max_peers:
        parts = [half for part in parts for half in _halves(edges, part)]
    for number, part in enumerate(parts):
        for e in part:
            channel[e] = number
    return channel


def _degree(edges: Sequence[Edge], part: Sequence[int]) -> int:
    sends, receives = Counter(edges[e][0] for e in part), Counter(edges[e][1] for e in part)
    return max((*sends.values(), *receives.values()), default=0)


def _halves(edges: Sequence[Edge], part: Sequence[int]) -> tuple[list[int], list[int]]:
    """Two parts; at every vertex their numbers of edges differ by one at most."""
    mates = _mates(edges, part)
    side: dict[int, int] = {}
    ends = [e for e in part if None in mates[e]]
    for first in (*ends, *part):
        if first in side:
            continue
        at: int | None = first
        turn = 0 if mates[first][0] is not None else 1  # walk on from the end that has a mate
        colour = 0
        while at is not None and at not in side:
            side[at] = colour
            at, turn, colour = mates[at][turn], 1 - turn, 1 - colour
    return [e for e in part if not side[e]], [e for e in part if side[e]]


def _mates(edges: Sequence[Edge], part: Sequence[int]) -> dict[int, list[int | None]]:
    """For each edge the one that the walk comes from or goes to at its source and at its destination."""
    mates: dict[int, list[int | None]] = {e: [None, None] for e in part}
    for end in (0, 1):
        waiting: dict[Rank, int] = {}
        for e in part:
            other = waiting.pop(edges[e][end], None)
            if other is None:
                waiting[edges[e][end]] = e
            else:
                mates[e][end], mates[other][end] = other, e
    return mates
