"""Cheapest spanning arborescences and shortest paths, exact, for the judge of prices.

In: a square matrix of whole-number costs, ``NONE`` where no edge is. Out: what the cheapest arborescence from a
root costs, or every shortest path. One root at a time: the vertices that the root reaches for nothing become
part of it; from one that it does not reach yet cheapest edges are followed backwards, their costs are paid and
taken off, and a cycle of them becomes one vertex (Chu and Liu 1965; Edmonds 1967).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]

NONE = 2**62
"""More than any sum of costs that is added up; what is above the half of it is no edge."""


def arborescence_cost(costs: Whole, root: int) -> int | None:
    """The least cost of edges by which ``root`` reaches every vertex; None where it does not."""
    n = len(costs)
    entering = costs.T.copy()  # entering[v, u]: what edge (u, v) costs
    entering[np.arange(n), np.arange(n)] = NONE
    waiting = [v for v in range(n) if v != root]
    alive = np.ones(n, dtype=np.bool_)
    reached = np.zeros(n, dtype=np.bool_)
    reached[root] = True
    paid = 0
    while waiting:
        vertex = waiting.pop()
        if reached[vertex] or not alive[vertex]:
            continue
        path = [vertex]
        place = {vertex: 0}
        while True:
            top = path[-1]
            row = entering[top]
            before = int(row.argmin())
            least = int(row[before])
            if least >= NONE // 2:
                return None
            paid += least
            row -= least
            if before == root:
                break
            if before not in place:
                place[before] = len(path)
                path.append(before)
                continue
            cycle = path[place[before] :]
            _merge(entering, alive, before, cycle)
            for gone in cycle:
                if gone != before:
                    del place[gone]
            del path[place[before] + 1 :]
        _merge(entering, alive, root, [root, *path])
        reached[path] = True
    return paid


def _merge(entering: Whole, alive: NDArray[np.bool_], into: int, vertices: list[int]) -> None:
    """``vertices`` become vertex ``into``."""
    entering[into] = entering[vertices].min(axis=0)
    entering[:, into] = entering[:, vertices].min(axis=1)
    others = [v for v in vertices if v != into]
    entering[:, others] = NONE
    entering[into, into] = NONE
    alive[others] = False


def shortest_paths(costs: Whole) -> Whole:
    """The length of the shortest path between every two vertices (Floyd 1962; Warshall 1962)."""
    length = np.minimum(costs, NONE // 4)
    np.fill_diagonal(length, 0)
    for via in range(len(length)):
        np.minimum(length, length[:, via, None] + length[None, via, :], out=length)
    return length
