"""The inner loop of earliest arrival first, interpreted or compiled: one round.

In: arcs, resources and the ranks that lack chunks, as records of arrays. Out: transfers in the order in which they
were chosen.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from hetesynth.search.machine_code import Row

ROUNDING = 1e-15  # seconds by which an entry of the queue may be too early


class Network(NamedTuple):
    """A arcs, R resources, n ranks."""

    arc_src: Row  # A
    arc_dst: Row  # A
    out_start: Row  # n + 1: where the arcs that leave each rank begin in ``out_arcs``
    out_arcs: Row
    uses_start: Row  # A + 1: where the resources of each arc begin in ``uses``
    uses: Row
    cost: Row  # A: price of a transfer
    flow: Row  # A: seconds of a transfer
    busy: Row  # R: seconds that a transfer keeps the resource busy
    distance: Row  # n x n: seconds from a rank to another along the quickest arcs


class Round(NamedTuple):
    """K chunks: what a round changes. Of K x n entries those of a chunk stand together."""

    holds: Row  # K x n: when a rank holds the chunk, infinite where it does not
    lacks: Row  # K x n
    nearest: (
        Row  # K x n: seconds to a rank that lacks the chunk from the nearest holder, negative: it lacks nothing
    )
    lacking: Row  # K: ranks that lack the chunk
    free: Row  # R: when the resource is free
    load: Row  # R: seconds of work
    chunks: Row  # chunk, arc and begin of each transfer
    arcs: Row
    begins: Row


def first_queue(n: Network, p: Round) -> list[tuple[float, int, int]]:
    """A heap of (key, chunk, arc) for the arcs that leave holders; keys are computed when an entry comes up."""
    ranks = len(n.out_start) - 1
    queue = [(0.0, 0, 0)]
    queue.pop()
    for k in range(len(p.lacking)):
        row = k * ranks
        for v in range(ranks):
            p.nearest[row + v] = -1.0
            if p.lacks[row + v]:
                p.lacking[k] += 1
                p.nearest[row + v] = np.inf
        for u in range(ranks):
            if p.holds[row + u] < np.inf:
                come_nearer(n.distance, u * ranks, p.nearest, row, ranks)
                for i in range(n.out_start[u], n.out_start[u + 1]):
                    queue.append((-np.inf, k, n.out_arcs[i]))  # noqa: PERF401 - a loop that numba takes
    heapify(queue)
    return queue


def come_nearer(distance: Row, from_rank: int, nearest: Row, of_chunk: int, ranks: int) -> None:
    """A rank holds a chunk: their rows of ``distance`` and ``nearest`` begin at ``from_rank`` and ``of_chunk``."""
    for v in range(ranks):
        if distance[from_rank + v] < nearest[of_chunk + v]:
            nearest[of_chunk + v] = distance[from_rank + v]


def farthest_served(distance: Row, from_rank: int, nearest: Row, of_chunk: int, ranks: int) -> float:
    """Seconds to the farthest rank that lacks the chunk and to which the rank is nearer than any holder."""
    farthest = 0.0
    for v in range(ranks):
        seconds = distance[from_rank + v]
        if seconds < nearest[of_chunk + v] and seconds > farthest:
            farthest = seconds
    return farthest


def earliest_start(uses_start: Row, uses: Row, free: Row, a: int, ready: float) -> float:
    """When a chunk that is at the sender of arc ``a`` at ``ready`` can begin to cross it."""
    start = ready
    for j in range(uses_start[a], uses_start[a + 1]):
        start = max(start, free[uses[j]])
    return start


def book(n: Network, p: Round, a: int, start: float) -> None:
    """A transfer over arc ``a`` keeps its resources busy from ``start`` on."""
    for j in range(n.uses_start[a], n.uses_start[a + 1]):
        p.free[n.uses[j]] = start + n.busy[n.uses[j]]
        p.load[n.uses[j]] += n.busy[n.uses[j]]


def deliver(n: Network, p: Round, k: int, rank: int, arrives: float) -> bool:
    """Chunk ``k`` is at ``rank`` from ``arrives`` on; whether no rank lacks it any more."""
    ranks = len(n.out_start) - 1
    p.holds[k * ranks + rank] = arrives
    come_nearer(n.distance, rank * ranks, p.nearest, k * ranks, ranks)
    p.nearest[k * ranks + rank] = -1.0
    if p.lacks[k * ranks + rank]:
        p.lacks[k * ranks + rank] = False
        p.lacking[k] -= 1
        return bool(p.lacking[k] == 0)
    return False


def chunks_lacking(p: Round) -> int:
    """Chunks that some rank lacks."""
    number = 0
    for k in range(len(p.lacking)):
        if p.lacking[k] > 0:
            number += 1
    return number


def run_round(n: Network, p: Round) -> tuple[int, float]:
    """Fill ``chunks``, ``arcs`` and ``begins``; how many transfers there are, and when the last one arrives."""
    ranks = len(n.out_start) - 1
    count, last = 0, 0.0
    queue = first_queue(n, p)
    open_chunks = chunks_lacking(p)
    while open_chunks > 0 and len(queue) > 0:
        key, k, a = heappop(queue)
        dst = n.arc_dst[a]
        if p.lacking[k] == 0 or p.holds[k * ranks + dst] < np.inf:
            continue
        start = earliest_start(n.uses_start, n.uses, p.free, a, p.holds[k * ranks + n.arc_src[a]])
        served = farthest_served(n.distance, dst * ranks, p.nearest, k * ranks, ranks)
        now = start + n.flow[a] + n.cost[a] - served
        if now > key + ROUNDING:
            heappush(queue, (now, k, a))
            continue
        book(n, p, a, start)
        arrives = start + n.flow[a]
        last = max(last, arrives)
        p.chunks[count], p.arcs[count], p.begins[count] = k, a, start
        count += 1
        if deliver(n, p, k, dst, arrives):
            open_chunks -= 1
        for i in range(n.out_start[dst], n.out_start[dst + 1]):
            if p.holds[k * ranks + n.arc_dst[n.out_arcs[i]]] == np.inf:
                heappush(queue, (-np.inf, k, n.out_arcs[i]))
    return count, last
