"""Cheapest spanning arborescences of all roots at once, by contraction (Edmonds 1967; Gabow et al. 1986).

In: a matrix of edge costs. Out: a ``Contraction``: the laminar family of vertex sets that Edmonds' algorithm
contracts, each with its dual value y. It does not depend on the root: the cheapest arborescence from root r
costs the sum of y over the sets that do not contain r, and the spanning arborescences that cost this are those
of edges without slack that enter every such set with y > 0 once. Among these ``earliest`` chooses one where
every vertex is reached early. Works on dense arrays, all roots together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Contraction:
    """The sets in the order of their creation: n vertices, then contracted cycles; the last holds all.

    ``dual[s]``: y of set s, 0 for the last. ``parent[s]``: the set that s was contracted into. ``join[u, v]``:
    the smallest set that holds both. ``paid[u, v]``: the sum of y over the sets that hold v and not u, which is
    at most the cost of edge (u, v), and equal where the edge has no slack.
    """

    dual: Floats
    parent: Ints
    join: Ints
    paid: Floats

    @property
    def vertices(self) -> int:
        """How many vertices the graph has."""
        return len(self.join)

    def root_costs(self) -> Floats:
        """What the cheapest spanning arborescence from each vertex costs."""
        inside = np.zeros(len(self.dual))  # y of the set and of all that hold it
        for s in range(len(self.dual) - 2, -1, -1):
            inside[s] = self.dual[s] + inside[self.parent[s]]
        costs: Floats = self.dual.sum() - inside[: self.vertices]
        return costs

    def positive_join(self, least: float) -> Ints:
        """``join`` with sets whose y is at most ``least`` replaced by the next larger one."""
        stands_for = np.arange(len(self.dual))
        for s in range(len(self.dual) - 2, -1, -1):
            if self.dual[s] <= least and s >= self.vertices:
                stands_for[s] = stands_for[self.parent[s]]
        joined: Ints = stands_for[self.join]
        return joined


def contract(costs: Floats) -> Contraction:
    """Contract the complete graph whose edge (u, v) costs ``costs[u, v]``; infinite where there is none.

    Raises ValueError where some vertex cannot be reached from every other.
    """
    n = len(costs)
    entering = costs.T.copy()  # entering[v, u]: what edge (u, v) costs
    np.fill_diagonal(entering, np.inf)
    sets = [np.array([v]) for v in range(n)]  # vertices of the set that a row stands for
    name = list(range(n))  # the set that a row stands for
    parent, dual = [0] * (2 * n), np.zeros(2 * n)
    charged = np.zeros(n)
    unions: list[_Union] = []
    path = [0]
    on_path = np.zeros(n, dtype=np.bool_)
    on_path[0] = True
    left = n
    while left > 1:
        top = path[-1]
        before = int(entering[top].argmin())
        least = float(entering[top, before])
        if not np.isfinite(least):
            raise ValueError("some vertex cannot be reached from every other")
        dual[name[top]] = least
        charged[sets[top]] += least
        entering[top] -= least
        if not on_path[before]:
            path.append(before)
            on_path[before] = True
            continue
        cycle = [path.pop()]
        while cycle[-1] != before:
            cycle.append(path.pop())
        created = n + len(unions)
        for row in cycle:
            parent[name[row]] = created
        kept, others = cycle[0], cycle[1:]
        entering[kept] = entering[cycle].min(axis=0)
        entering[:, kept] = entering[:, cycle].min(axis=1)
        entering[others], entering[:, others] = np.inf, np.inf
        entering[kept, kept] = np.inf
        parts = [len(sets[row]) for row in cycle]
        sets[kept] = np.concatenate([sets[row] for row in cycle])
        unions.append(_Union(int(sets[kept][0]), parts, charged[sets[kept]]))
        name[kept] = created
        on_path[others] = False
        path.append(kept)
        left -= len(others)
    join, paid = _joined(sets[path[-1]], unions)
    return Contraction(dual[: n + len(unions)], np.array(parent[: n + len(unions)]), join, paid)


@dataclass(frozen=True, eq=False)
class _Union:
    """A contracted cycle: its first vertex, how many vertices each of its parts has, and what has been charged
    for each vertex of them, in the order of the parts."""

    first: int
    parts: list[int]
    charged: Floats


def _joined(order: Ints, unions: Sequence[_Union]) -> tuple[Ints, Floats]:
    """``join`` and ``paid`` of a contraction; in ``order`` the vertices of every set stand together."""
    n = len(order)
    join, paid = np.diag(order), np.zeros((n, n))
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    for created, union in enumerate(unions, start=n):
        begin = start = int(place[union.first])
        end = begin + len(union.charged)
        for size in union.parts:
            stop = start + size
            charged = union.charged[start - begin : stop - begin]
            for others in (slice(begin, start), slice(stop, end)):
                join[others, start:stop] = created
                paid[others, start:stop] = charged
            start = stop
    return join[np.ix_(place, place)], paid[np.ix_(place, place)]


def earliest(
    contraction: Contraction, costs: Floats, seconds: Floats, roots: Ints, slack: float
) -> tuple[Ints, Floats]:
    """A cheapest arborescence for each of ``roots`` in which vertices are reached early.

    ``seconds[u, v]``: what edge (u, v) takes. ``slack``: an edge whose cost is within it counts as tight, a set
    whose y is within it as free, so that each edge may cost as much more. Out: ``parent[i, v]``, the vertex
    before v in the arborescence of ``roots[i]`` (-1 at the root), and when each vertex is reached.
    """
    n, many = contraction.vertices, len(roots)
    join = contraction.positive_join(slack)
    tight = (costs - contraction.paid <= slack) & np.isfinite(costs)
    rows = np.arange(many)
    parent = np.full((many, n), -1, dtype=np.int64)
    reached = np.zeros((many, n), dtype=np.bool_)
    arrival = np.full((many, n), np.inf)
    arrival[rows, roots] = 0.0
    allowed = np.full((many, n), join.max() + 1, dtype=np.int64)  # the smallest set with a vertex that is reached
    vertex = roots.copy()
    usable = np.where(tight, seconds, np.inf)
    for _ in range(n):
        reached[rows, vertex] = True
        joined = join[vertex]
        deeper = joined < allowed
        allowed = np.where(deeper, joined, allowed)
        through = arrival[rows, vertex][:, None] + usable[vertex]
        through[joined > allowed] = np.inf
        old = np.where(deeper & ~reached, np.inf, arrival)
        better = (through < old) & ~reached
        arrival = np.where(better, through, old)
        parent = np.where(better, vertex[:, None], parent)
        vertex = np.where(reached, np.inf, arrival).argmin(axis=1)
    return parent, arrival
