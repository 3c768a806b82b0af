"""The inner loop of ``listing``: list scheduling of deliveries in seconds, interpreted or compiled.

In: deliveries, what each waits for and uses, as arrays. Out: when each begins. One function without objects, so
that numba takes it as it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetesynth.machine_code import machine_code

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def run_list_scheduling(
    parent: Ints, uses_start: Ints, uses: Ints, flow: Floats, busy: Floats, pressure: float, epochs: int,
    alike: float, left: Floats, begins: Floats,
) -> float:  # fmt: skip
    """Always the delivery that can begin first, of those the most urgent. Out: seconds until all is there.

    N deliveries, R resources. ``parent`` (N): the delivery that brings the chunk to the sender, -1: it is there;
    parents come before children. ``uses[uses_start[i] : uses_start[i + 1]]``: resources of delivery i. ``flow``
    (N) seconds it takes, ``busy`` (R) that it keeps a resource busy. Urgent: the seconds it still takes until all
    below has ended, ``pressure`` x the work ``left`` (R, used up) of a resource included; worked out anew
    ``epochs`` times. ``alike``: starts nearer than this are the same. Filled in: ``begins`` (N).
    """
    number = len(parent)
    child, sibling = np.full(number, -1), np.full(number, -1)
    for i in range(number - 1, -1, -1):
        if parent[i] >= 0:
            sibling[i] = child[parent[i]]
            child[parent[i]] = i
    free = np.zeros(len(busy))
    ready, urgency = np.zeros(number), np.zeros(number)
    done = np.zeros(number, dtype=np.bool_)
    heap = [(0, 0.0, 0)]
    heap.pop()
    every = max(1, number // epochs)
    made, last = 0, 0.0
    while made < number:
        if made % every == 0:
            urgency[:] = 0.0
            for i in range(number - 1, -1, -1):
                if done[i]:
                    continue
                for j in range(uses_start[i], uses_start[i + 1]):
                    urgency[i] = max(urgency[i], pressure * left[uses[j]])
                if parent[i] >= 0:
                    urgency[parent[i]] = max(urgency[parent[i]], urgency[i] + flow[i])
            if made == 0:
                for i in range(number):
                    if parent[i] < 0:
                        heappush(heap, (0, -urgency[i], i))
        tick, key, i = heappop(heap)
        start = ready[i]
        for j in range(uses_start[i], uses_start[i + 1]):
            start = max(start, free[uses[j]])
        now = int(start / alike + 0.5)
        if now > tick or -urgency[i] > key:
            heappush(heap, (now, -urgency[i], i))
            continue
        for j in range(uses_start[i], uses_start[i + 1]):
            free[uses[j]] = start + busy[uses[j]]
            left[uses[j]] -= busy[uses[j]]
        begins[i] = start
        done[i] = True
        made += 1
        end = start + flow[i]
        last = max(last, end)
        c = child[i]
        while c >= 0:
            ready[c] = end
            heappush(heap, (int(end / alike + 0.5), -urgency[c], c))
            c = sibling[c]
    return last


def compiled() -> Callable[..., Any]:
    """``run_list_scheduling`` as machine code."""
    return machine_code(run_list_scheduling)
