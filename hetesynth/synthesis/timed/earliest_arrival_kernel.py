"""The inner loop of ``timed``: one round of earliest arrival first, interpreted or compiled.

In: arcs, resources and what is wanted, as arrays. Out: transfers in the order in which they were chosen. One
function without objects, so that numba takes it as it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetesynth.machine_code import machine_code

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


def run_round(
    arc_dst: Ints, arc_src: Ints, out_start: Ints, out_arcs: Ints, uses_start: Ints, uses: Ints,
    cost: Floats, flow: Floats, busy: Floats, distance: Floats, held: Floats, wanted: Flags,
    chunks: Ints, arcs: Ints, begins: Floats, load: Floats,
) -> tuple[int, float]:  # fmt: skip
    """One round. A arcs, R resources, n ranks, K chunks, D the most transfers there can be.

    ``out_arcs[out_start[u] : out_start[u + 1]]``: arcs that leave u; ``uses`` likewise the resources of an arc.
    ``cost``, ``flow`` (A): price and seconds of a transfer; ``busy`` (R); ``distance`` (n, n): seconds between
    ranks. ``held`` (K, n): when a rank holds a chunk, infinite where it does not; ``wanted`` (K, n). Filled in:
    ``chunks``, ``arcs``, ``begins`` (D), ``held``, ``wanted``, ``load`` (R) seconds of work. Out: how many
    transfers, and when the last one arrives.
    """
    count, last = 0, 0.0
    ranks, number = distance.shape[0], held.shape[0]
    free = np.zeros(len(busy))
    left = np.zeros(number, dtype=np.int64)
    nearest = np.full((number, ranks), -1.0)
    heap = [(0.0, 0, 0)]
    heap.pop()
    for k in range(number):
        for v in range(ranks):
            if wanted[k, v]:
                left[k] += 1
                nearest[k, v] = np.inf
        for u in range(ranks):
            if held[k, u] < np.inf:
                for v in range(ranks):
                    if distance[u, v] < nearest[k, v]:
                        nearest[k, v] = distance[u, v]
                for i in range(out_start[u], out_start[u + 1]):
                    heap.append((-np.inf, k, out_arcs[i]))  # noqa: PERF401 - reckoned when it comes up
    heapify(heap)
    open_chunks = int((left > 0).sum())
    while open_chunks > 0 and len(heap) > 0:
        key, k, a = heappop(heap)
        dst = arc_dst[a]
        if left[k] == 0 or held[k, dst] < np.inf:
            continue
        start = held[k, arc_src[a]]
        for i in range(uses_start[a], uses_start[a + 1]):
            start = max(start, free[uses[i]])
        ahead = 0.0
        for v in range(ranks):
            if distance[dst, v] < nearest[k, v] and distance[dst, v] > ahead:
                ahead = distance[dst, v]
        now = start + flow[a] + cost[a] - ahead
        if now > key + 1e-15:
            heappush(heap, (now, k, a))
            continue
        for i in range(uses_start[a], uses_start[a + 1]):
            free[uses[i]] = start + busy[uses[i]]
            load[uses[i]] += busy[uses[i]]
        held[k, dst] = start + flow[a]
        last = max(last, held[k, dst])
        for v in range(ranks):
            nearest[k, v] = min(nearest[k, v], distance[dst, v])
        nearest[k, dst] = -1.0
        chunks[count], arcs[count], begins[count] = k, a, start
        count += 1
        if wanted[k, dst]:
            wanted[k, dst] = False
            left[k] -= 1
            if left[k] == 0:
                open_chunks -= 1
        for i in range(out_start[dst], out_start[dst + 1]):
            if held[k, arc_dst[out_arcs[i]]] == np.inf:
                heappush(heap, (-np.inf, k, out_arcs[i]))
    return count, last


def compiled() -> Callable[..., Any]:
    """``run_round`` as machine code."""
    return machine_code(run_round)
