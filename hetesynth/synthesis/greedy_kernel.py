"""The inner loop of the greedy rounds, on arrays: plain Python for small problems, compiled by numba for large.

One source serves both: ``run_round`` is called as it stands, or through ``compiled()``. It uses no randomness of
its own; noise comes in as arrays, so both ways give the same schedule.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MIN_GAIN = 1e-9
STALE = 0.6  # a queued delivery whose gain fell below this share of what it was is queued anew


def run_round(
    arc_src: Ints,  # arcs: source rank
    into: Ints,  # arcs sorted by destination rank, then by the gate they come through
    gate: Ints,  # gates: a resource that all arcs of the gate use (-1: none); gates sorted by destination rank
    gate_start: Ints,  # gates + 1: where the arcs of each gate begin in ``into``
    gates_of: Ints,  # ranks + 1: where the gates of each rank begin
    uses: Ints,  # resources of each arc, arc after arc
    uses_start: Ints,  # arcs + 1
    capacity: Ints,  # resources
    price: Floats,  # resources
    closest: Floats,  # ranks x ranks: priced distance from row to column
    towards: Floats,  # the same, transposed
    holds: Bools,  # chunks x ranks; changed
    lacks: Bools,  # chunks x ranks; changed
    distance: Floats,  # chunks x ranks: priced distance from the holders; changed
    noise: Floats,  # chunks x ranks: factor on gains
    arc_noise: Floats,  # arcs: added to costs
    exclusive: bool,  # a rank sends a chunk to one peer a step
    most_steps: int,  # give up after these; less than one: never
    used: Floats,  # resources; counts uses
    transfers: Ints,  # deliveries x 3; filled with step, chunk, arc
) -> tuple[int, int]:
    """Fill ``transfers`` step by step; how many, and the number of steps (-1: given up, -2: stuck)."""
    chunks, ranks = holds.shape
    gain = np.zeros((chunks, ranks))
    missing = 0
    for k in range(chunks):
        for w in range(ranks):
            if lacks[k, w]:
                missing += 1
                for v in range(ranks):
                    saved = distance[k, w] - towards[w, v]
                    if saved > 0.0:
                        gain[k, v] += saved
    arriving = np.zeros((chunks, ranks), dtype=np.bool_)
    sent = np.full((chunks, ranks), -1, dtype=np.int64)
    residual = capacity.copy()
    blocked = np.zeros(ranks, dtype=np.bool_)
    count, step = 0, 0
    while missing > 0:
        if most_steps > 0 and step >= most_steps:
            return count, -1
        before = count
        for r in range(len(capacity)):
            residual[r] = capacity[r]
        for v in range(ranks):
            blocked[v] = False
        queue = [(0.0, -1)]
        queue.pop()
        for k in range(chunks):
            for v in range(ranks):
                if gain[k, v] > MIN_GAIN and not holds[k, v]:
                    queue.append((-gain[k, v] * noise[k, v], k * ranks + v))  # noqa: PERF401 (numba)
        heapq.heapify(queue)
        while len(queue) > 0:
            promised, code = heapq.heappop(queue)
            k = code // ranks
            v = code - k * ranks
            if blocked[v] or arriving[k, v] or gain[k, v] <= MIN_GAIN:
                continue
            now = gain[k, v] * noise[k, v]
            if now < -promised * STALE:
                heapq.heappush(queue, (-now, code))
                continue
            best, best_cost, room = -1, 0.0, False
            for g in range(gates_of[v], gates_of[v + 1]):
                if gate[g] >= 0 and residual[gate[g]] <= 0:
                    continue
                for i in range(gate_start[g], gate_start[g + 1]):
                    a = into[i]
                    u = arc_src[a]
                    if room and (not holds[k, u] or (exclusive and sent[k, u] == step)):
                        continue
                    cost = arc_noise[a]
                    fits = True
                    for j in range(uses_start[a], uses_start[a + 1]):
                        r = uses[j]
                        if residual[r] <= 0:
                            fits = False
                            break
                        cost += price[r] * (2.0 - residual[r] / capacity[r])
                    if not fits:
                        continue
                    room = True
                    if holds[k, u] and not (exclusive and sent[k, u] == step) and (best < 0 or cost < best_cost):
                        best, best_cost = a, cost
            if best < 0:
                if not room:
                    blocked[v] = True
                continue
            for j in range(uses_start[best], uses_start[best + 1]):
                residual[uses[j]] -= 1
                used[uses[j]] += 1.0
            sent[k, arc_src[best]] = step
            arriving[k, v] = True
            transfers[count, 0] = step
            transfers[count, 1] = k
            transfers[count, 2] = best
            count += 1
            for w in range(ranks):
                if not lacks[k, w]:
                    continue
                old = distance[k, w]
                if w == v:
                    lacks[k, w] = False
                    missing -= 1
                    for x in range(ranks):
                        saved = old - towards[w, x]
                        if saved > 0.0:
                            gain[k, x] -= saved
                elif closest[v, w] < old:
                    new = closest[v, w]
                    distance[k, w] = new
                    for x in range(ranks):
                        saved = old - towards[w, x]
                        if saved > 0.0:
                            left = new - towards[w, x]
                            gain[k, x] -= saved - left if left > 0.0 else saved
        if count == before:
            return count, -2
        for i in range(before, count):
            k = transfers[i, 1]
            for v in range(ranks):
                if arriving[k, v]:
                    holds[k, v] = True
                    arriving[k, v] = False
        step += 1
    return count, step


@cache
def compiled() -> Callable[..., Any]:
    """``run_round`` as machine code; compiled on first use and kept on disk between runs."""
    import numba

    kernel: Callable[..., Any] = numba.njit(cache=True)(run_round)
    return kernel
