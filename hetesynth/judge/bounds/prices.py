"""Rechecking prices: what every chunk pays at least against what a step earns at most.

In: a problem and a price witness. Out: the number of steps it proves; ``Refuted`` when it proves nothing. Arrays
are (source, rank); a path or a tree that does not exist costs NEVER or more.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hetesynth.judge.bounds.arborescences import arborescence_cost, shortest_paths
from hetesynth.judge.bounds.laws import NEVER, Refuted, demand, quotient
from hetesynth.model.bound import PriceWitness
from hetesynth.model.problem import Problem

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_PRICE = 1 << 32
MAX_RANKS = 4096


def price_steps(problem: Problem, claim: PriceWitness) -> int:
    """Load times price is at most ``earned`` over a step, and at least ``paid`` over a whole schedule."""
    prices = _prices(problem, claim)
    earned = sum(prices.get(resource.name, 0) * resource.capacity for resource in problem.resources)
    demand(claim.earned == earned, f"a step is said to earn {claim.earned}, it can earn {earned}")
    cost = [0] * len(problem.arcs)
    for resource in problem.resources:
        for a in resource.arcs:
            cost[a] += prices.get(resource.name, 0)
    paid = _paid(problem, cost)
    demand(0 <= claim.paid <= paid, f"the chunks are said to pay {claim.paid}, they need not pay more than {paid}")
    return quotient(claim.paid, earned)


def _prices(problem: Problem, claim: PriceWitness) -> dict[str, int]:
    prices = dict(claim.prices)
    demand(len(prices) == len(claim.prices), "a resource has two prices")
    resources = {resource.name for resource in problem.resources}
    for name, price in claim.prices:
        demand(name in resources, f"there is no resource {name!r}")
        demand(0 <= price <= MAX_PRICE, f"{name}: the price {price} is negative or too large")
    return prices


def _paid(problem: Problem, cost: list[int]) -> int:
    """Every chunk pays at least for the path to the target (and from the contributor) that costs most."""
    if problem.ranks > MAX_RANKS:
        raise Refuted(f"prices on more than {MAX_RANKS} ranks are not rechecked")
    edges = _edges(problem, cost)
    closest = shortest_paths(edges)
    reduces = problem.collective.reduces
    kinds = Counter(zip(problem.collective.pre, problem.collective.post, strict=True))
    paid = 0
    for (pre, post), count in kinds.items():
        pick = max if reduces else min
        least = max(pick(int(closest[u, v]) for u in pre) for v in post)
        if not reduces and len(pre) == 1 and len(pre | post) == problem.ranks:
            least = max(least, arborescence_cost(edges, *pre) or 0)
        paid += count * least
    return paid


def _edges(problem: Problem, cost: list[int]) -> NDArray[np.int64]:
    """``[u, v]``: what the cheapest link from u to v costs, NEVER without one."""
    import numpy as np

    edge = np.full((problem.ranks, problem.ranks), NEVER, dtype=np.int64)
    for arc, price in zip(problem.arcs, cost, strict=True):
        edge[arc.src, arc.dst] = min(int(edge[arc.src, arc.dst]), price)
    return edge
