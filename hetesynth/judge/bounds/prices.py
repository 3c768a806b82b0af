"""Rechecking prices, and the cheapest trees and shortest paths that every judge of prices needs, exact."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from hetesynth.judge.bounds.laws import NEVER, demand, quotient
from hetesynth.model.bound import PriceWitness
from hetesynth.model.problem import Problem

Whole = NDArray[np.int64]

MAX_PRICE = 1 << 32
MAX_RANKS = 4096
NONE = 2**62
"""More than any sum of costs that is added up; what is above the half of it is no edge."""


def price_steps(problem: Problem, claim: PriceWitness) -> int:
    """Load times price is at most ``earned`` over a step, and at least ``paid`` over a whole schedule."""
    prices = dict(claim.prices)
    demand(len(prices) == len(claim.prices), "a resource has two prices")
    resources = {resource.name for resource in problem.resources}
    for name, price in claim.prices:
        demand(name in resources, f"there is no resource {name!r}")
        demand(0 <= price <= MAX_PRICE, f"{name}: the price {price} is negative or too large")
    earned = sum(prices.get(resource.name, 0) * resource.capacity for resource in problem.resources)
    demand(claim.earned == earned, f"a step is said to earn {claim.earned}, it can earn {earned}")
    demand(problem.ranks <= MAX_RANKS, f"prices on more than {MAX_RANKS} ranks are not rechecked")
    cost = [0] * len(problem.arcs)
    for resource in problem.resources:
        for a in resource.arcs:
            cost[a] += prices.get(resource.name, 0)
    edges = np.full((problem.ranks, problem.ranks), NEVER, dtype=np.int64)  # no path costs NEVER or more
    for arc, price in zip(problem.arcs, cost, strict=True):
        edges[arc.src, arc.dst] = min(int(edges[arc.src, arc.dst]), price)
    closest = shortest_paths(edges)
    reduces, paid = problem.collective.reduces, 0
    kinds = Counter(zip(problem.collective.pre, problem.collective.post, strict=True))
    for (pre, post), count in kinds.items():
        # every chunk pays at least for the path to the target (and from the contributor) that costs most
        pick = max if reduces else min
        least = max(pick(int(closest[u, v]) for u in pre) for v in post)
        if not reduces and len(pre) == 1 and len(pre | post) == problem.ranks:
            least = max(least, arborescence_cost(edges, *pre) or 0)
        paid += count * least
    demand(0 <= claim.paid <= paid, f"the chunks are said to pay {claim.paid}, they need not pay more than {paid}")
    return quotient(claim.paid, earned)


def arborescence_cost(costs: Whole, root: int) -> int | None:
    """The least cost of edges by which ``root`` reaches every vertex; None where it does not.

    The vertices that the root reaches for nothing become part of it; from one that it does not reach yet cheapest
    edges are followed backwards, their costs are paid and taken off, and a cycle of them becomes one vertex
    (Chu and Liu 1965; Edmonds 1967).
    """
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
