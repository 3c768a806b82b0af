"""The price bound: the dual of routing every chunk on its cheapest path.

In: a copying problem whose chunks each have one target besides their holders (alltoall, gather, scatter). Give
every resource a price; a chunk pays at least its cheapest path, and a step earns at most the prices times the
capacities. So steps >= sum of cheapest paths / sum of price x capacity, for any prices (linear programming duality
of the multi-commodity flow of TE-CCL 4.1, without its time axis). Good prices come from multiplicative weights:
route on cheapest paths, raise the price of what is busy, repeat. The final prices are integers and the bound is
computed from them exactly.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import SupportsInt

import numpy as np
from numpy.typing import NDArray

from hetesynth.model.bound import LowerBound, PriceWitness
from hetesynth.model.problem import Problem, Resource
from hetesynth.policy.bounds import BoundsPolicy

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SCALE = 1_000_000  # integer price of the dearest resource: how finely prices are rounded


def price_bound(problem: Problem, policy: BoundsPolicy) -> LowerBound | None:
    """The best price bound found, or None where it does not apply."""
    demand = _demand(problem)
    if demand is None or problem.ranks > policy.price_ranks:
        return None
    routing = _Routing(problem)
    price = 1.0 / routing.capacity
    best: tuple[int, Ints] | None = None
    for _ in range(policy.price_rounds):
        whole = np.maximum(np.rint(price / price.max() * SCALE), 1).astype(np.int64)
        cost, load = routing.route(whole, demand)
        steps = -(-cost // int(whole @ routing.capacity_int))
        if best is None or steps > best[0]:
            best = (steps, whole)
        busy = load / routing.capacity
        price = price * (1.0 + policy.price_step * busy / busy.max())
        price = price / price.max()
    if best is None:
        return None
    _, whole = best
    return bound_of_prices(zip(routing.resources, whole, strict=True), routing.route(whole, demand)[0], "paths")


def bound_of_prices(priced: Iterable[tuple[Resource, SupportsInt]], paid: int, what: str) -> LowerBound:
    """That a schedule pays ``paid`` at least, for its cheapest ``what``, at these whole-number prices."""
    listed = [(resource, int(price)) for resource, price in priced]
    earned = sum(price * resource.capacity for resource, price in listed)
    proof = f"the cheapest {what} cost {paid} at prices that let a step earn {earned}"
    witness = PriceWitness(tuple((resource.name, price) for resource, price in listed), paid, earned)
    return LowerBound(-(-paid // earned), "price", proof, witness)


def _demand(problem: Problem) -> Ints | None:
    """``demand[u, v]``: chunks that start at u only and end at v only; None when some chunk has more targets."""
    demand = np.zeros((problem.ranks, problem.ranks), dtype=np.int64)
    for pre, post in zip(problem.collective.pre, problem.collective.post, strict=True):
        targets = post - pre
        if not targets:
            continue
        if len(pre) > 1 or len(targets) > 1:
            return None
        demand[min(pre), min(targets)] += 1
    return demand if demand.any() else None


class _Routing:
    """Cheapest paths of a problem under prices on its resources."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.resources = problem.binding_resources
        self.capacity_int = np.array([r.capacity for r in self.resources], dtype=np.int64)
        self.capacity = self.capacity_int.astype(np.float64)
        pairs = [(a, r) for r, resource in enumerate(self.resources) for a in resource.arcs]
        self.arc_of = np.array([a for a, _ in pairs], dtype=np.int64)
        self.resource_of = np.array([r for _, r in pairs], dtype=np.int64)
        self.src = np.array([arc.src for arc in problem.arcs], dtype=np.int64)
        self.dst = np.array([arc.dst for arc in problem.arcs], dtype=np.int64)

    def route(self, price: Ints, demand: Ints) -> tuple[int, Floats]:
        """What all chunks pay on cheapest paths (exact), and the load that puts on each resource."""
        cost = np.zeros(len(self.src), dtype=np.int64)
        np.add.at(cost, self.arc_of, price[self.resource_of])
        # all-pairs cheapest costs and the first arc of each cheapest path (Floyd-Warshall on integers)
        n = self.problem.ranks
        far = np.int64(1) << 60
        closest: Ints = np.full((n, n), far, dtype=np.int64)
        first: Ints = np.full((n, n), -1, dtype=np.int64)
        for a in np.lexsort((np.arange(len(cost)), cost))[::-1]:
            closest[self.src[a], self.dst[a]] = cost[a]
            first[self.src[a], self.dst[a]] = a
        np.fill_diagonal(closest, 0)
        for m in range(n):
            through = closest[:, m : m + 1] + closest[m : m + 1, :]
            better = through < closest
            closest = np.where(better, through, closest)
            first = np.where(better, first[:, m : m + 1], first)
        total = int((closest * demand)[demand > 0].sum())
        # chunks over each arc when every chunk takes its cheapest path, all chunks one arc at a time
        crossing = np.zeros(len(self.src))
        at, to = np.nonzero(demand)
        amount = demand[at, to].astype(np.float64)
        for _ in range(self.problem.ranks):
            arcs = first[at, to]
            np.add.at(crossing, arcs, amount)
            at = self.dst[arcs]
            going = at != to
            at, to, amount = at[going], to[going], amount[going]
            if not len(at):
                break
        load = np.zeros(len(self.resources))
        np.add.at(load, self.resource_of, crossing[self.arc_of])
        return total, load
