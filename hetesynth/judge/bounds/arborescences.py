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
    entering = costs.T.copy()  # entering[v, u]: what edge (u, v) costs
    paid = 0
    for vertex in (v for v in range(len(costs)) if v != root):
        path = [vertex]
        place = {vertex: 0}
        while True:
            row = entering[path[-1]]
            before = int(row.argmin())
            least = int(row[before])
            if least >= NONE // 2:
                return None
            paid += least
            row -= least
            if before == root:
                break
            if before in place:
                _merge(entering, before, path[place[before] :])
                del path[place[before] + 1 :]
            else:
                place[before] = len(path)
                path.append(before)
        _merge(entering, root, [root, *path])
    return paid


def _merge(entering: Whole, into: int, vertices: list[int]) -> None:
    """``vertices`` become vertex ``into``; no edge leaves the others any more."""
    entering[into] = entering[vertices].min(axis=0)
    entering[:, into] = entering[:, vertices].min(axis=1)
    entering[:, [v for v in vertices if v != into]] = NONE
    entering[into, into] = NONE


def shortest_paths(costs: Whole) -> Whole:
    """The length of the shortest path between every two vertices (Floyd 1962; Warshall 1962)."""
    length = np.minimum(costs, NONE // 4)
    np.fill_diagonal(length, 0)
    for via in range(len(length)):
        np.minimum(length, length[:, via, None] + length[None, via, :], out=length)
    return length
