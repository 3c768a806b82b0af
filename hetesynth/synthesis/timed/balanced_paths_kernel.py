"""The inner loops of ``exchange``: one sweep of rerouting, and one list schedule, interpreted or compiled.

In: arcs, resources and chunks as arrays. Out: paths, and when each of their arcs begins. Functions without
objects, so that numba takes them as they stand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetesynth.machine_code import machine_code

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ALIKE = 1e-9  # seconds of a start in the share of the whole: sooner than this is no sooner


def run_sweep(
    arc_dst: Ints, out_start: Ints, out_arcs: Ints, uses_start: Ints, uses: Ints,
    flow: Floats, busy: Floats, origin: Ints, goal: Ints, order: Ints, target: float, sharpness: float,
    weight: float, length: Ints, paths: Ints, load: Floats,
) -> bool:  # fmt: skip
    """Reroute every chunk once by the cheapest path at the present load. A arcs, R resources, n ranks, K chunks.

    ``out_arcs[out_start[u] : out_start[u + 1]]``: arcs that leave u; ``uses`` likewise the resources of an arc.
    ``flow`` (A), ``busy`` (R): seconds of a transfer, and that it keeps a resource busy. A resource costs
    ``weight`` x busy where its load is ``target`` seconds, exponentially less (``sharpness``) below. ``order``:
    of chunks. Changed: ``length`` (K) and ``paths`` (K, n) arcs of each path, ``load`` (R). False: some goal
    cannot be reached.
    """
    ranks = len(out_start) - 1
    price = np.empty(len(busy))
    for r in range(len(busy)):
        price[r] = weight * busy[r] * np.exp(sharpness * ((load[r] + busy[r]) / target - 1.0))
    cost = np.empty(ranks)
    by = np.empty(ranks, dtype=np.int64)
    above = np.empty(ranks, dtype=np.int64)
    done = np.empty(ranks, dtype=np.bool_)
    for k in order:
        for i in range(length[k]):
            a = paths[k, i]
            for j in range(uses_start[a], uses_start[a + 1]):
                r = uses[j]
                load[r] -= busy[r]
                price[r] = weight * busy[r] * np.exp(sharpness * ((load[r] + busy[r]) / target - 1.0))
        cost[:] = np.inf
        done[:] = False
        cost[origin[k]] = 0.0
        at = origin[k]
        while at != goal[k]:
            done[at] = True
            for i in range(out_start[at], out_start[at + 1]):
                a = out_arcs[i]
                to = arc_dst[a]
                if done[to]:
                    continue
                c = cost[at] + flow[a]
                for j in range(uses_start[a], uses_start[a + 1]):
                    c += price[uses[j]]
                if c < cost[to]:
                    cost[to] = c
                    by[to] = a
                    above[to] = at
            at = -1
            least = np.inf
            for v in range(ranks):
                if not done[v] and cost[v] < least:
                    least = cost[v]
                    at = v
            if at < 0:
                return False
        hops = 0
        while at != origin[k]:
            hops += 1
            at = above[at]
        length[k] = hops
        at = goal[k]
        while at != origin[k]:
            hops -= 1
            a = by[at]
            paths[k, hops] = a
            at = above[at]
            for j in range(uses_start[a], uses_start[a + 1]):
                r = uses[j]
                load[r] += busy[r]
                price[r] = weight * busy[r] * np.exp(sharpness * ((load[r] + busy[r]) / target - 1.0))
    return True


def run_list_scheduling(
    uses_start: Ints, uses: Ints, flow: Floats, busy: Floats, length: Ints, paths: Ints, tail: Floats,
    pressure: float, alike: float, left: Floats, begins: Floats,
) -> float:  # fmt: skip
    """List the arcs of all paths: always one that can begin first, of those the most urgent. Out: when all ends.

    ``tail`` (K, n): seconds from the end of each arc of a path until its chunk is there, nothing else under way.
    Urgent is what has a long tail, and (``pressure``) what a resource with much work left waits for. ``alike``:
    starts that differ by less are the same. ``left`` (R): seconds of work of each resource, used up. Filled in:
    ``begins`` (K, n).
    """
    chunks = len(length)
    free = np.zeros(len(busy))
    at = np.zeros(chunks, dtype=np.int64)
    ready = np.zeros(chunks)
    going = np.arange(chunks)
    count, last = chunks, 0.0
    for k in range(chunks):
        begins[k, :] = -1.0
    i = 0
    while i < count:
        if length[going[i]] == 0:
            count -= 1
            going[i] = going[count]
        else:
            i += 1
    while count > 0:
        first = np.inf
        best = -1
        most = -np.inf
        for i in range(count):
            k = going[i]
            a = paths[k, at[k]]
            start = ready[k]
            if start > first + alike:
                continue
            for j in range(uses_start[a], uses_start[a + 1]):
                if free[uses[j]] > start:
                    start = free[uses[j]]
            if start > first + alike:
                continue
            urgency = 0.0
            for h in range(at[k], length[k]):
                b = paths[k, h]
                for j in range(uses_start[b], uses_start[b + 1]):
                    if left[uses[j]] > urgency:
                        urgency = left[uses[j]]
            urgency = pressure * urgency + tail[k, at[k]]
            if start < first - alike or urgency > most or (urgency == most and k < going[best]):
                first = min(first, start)
                most = urgency
                best = i
        k = going[best]
        a = paths[k, at[k]]
        start = ready[k]
        for j in range(uses_start[a], uses_start[a + 1]):
            start = max(start, free[uses[j]])
        for j in range(uses_start[a], uses_start[a + 1]):
            free[uses[j]] = start + busy[uses[j]]
            left[uses[j]] -= busy[uses[j]]
        begins[k, at[k]] = start
        ready[k] = start + flow[a]
        at[k] += 1
        if at[k] == length[k]:
            last = max(last, ready[k])
            count -= 1
            going[best] = going[count]
    return last


def compiled_sweep() -> Callable[..., Any]:
    """``run_sweep`` as machine code."""
    return machine_code(run_sweep)


def compiled_list_scheduling() -> Callable[..., Any]:
    """``run_list_scheduling`` as machine code."""
    return machine_code(run_list_scheduling)
