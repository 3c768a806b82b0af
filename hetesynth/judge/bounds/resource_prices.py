"""Works out what prices of resources prove of a collective.

In: a topology, a collective's name and root, prices. Out: seconds and seconds per byte that no schedule
undercuts, or what is wrong with the prices. Every root is priced by itself, in whole numbers, and no symmetry is
trusted.

Without coding, what moves of one byte of a buffer uses at least the links of a tree (or path) on which the byte
first reaches each rank that wants it, or on which what each rank adds to it comes to the rank that wants the
sum. So the cheapest trees and paths bound every schedule, however it cuts the buffer. ``every_allreduce`` says
what bounds an allreduce that follows no trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hetesynth.judge.bounds.arborescences import NONE, Whole, arborescence_cost, shortest_paths
from hetesynth.model.collective import CollectiveName
from hetesynth.model.time_bound import ResourcePrices, Scope
from hetesynth.model.topology import Rank, Topology

Proved = tuple[Fraction, Fraction] | str  # seconds and seconds per byte, or what is wrong


@dataclass(frozen=True)
class PriceClaim:
    """What a bound by prices says of itself."""

    prices: ResourcePrices
    scope: Scope
    backwards: bool


def proved_by_prices(topology: Topology, name: CollectiveName, root: Rank | None, claim: PriceClaim) -> Proved:
    """The latency and the seconds per byte that the prices of ``claim`` prove."""
    by_link = _link_prices(topology, claim.prices)
    if isinstance(by_link, str):
        return by_link
    cost = _cost(_matrix(topology, by_link), name, root, claim)
    if isinstance(cost, str):
        return cost
    if not cost:
        return "nothing that must move has a price"
    latency = min(link.latency for link, price in zip(topology.links, by_link, strict=True) if price)
    return latency, cost / _supply(topology, claim.prices)


def _supply(topology: Topology, prices: ResourcePrices) -> Fraction:
    """Price x bytes that all resources carry in a second."""
    wires = (
        w.bandwidth * w.lanes * p
        for w, p in zip(topology.wires, prices.wires, strict=True)
        if w.bandwidth is not None
    )
    groups = (g.bandwidth * g.lanes * p for g, p in zip(topology.groups, prices.groups, strict=True))
    return sum(wires, Fraction(0)) + sum(groups, Fraction(0))


def _link_prices(topology: Topology, prices: ResourcePrices) -> list[int] | str:
    """The price of a byte over each link, or what is wrong."""
    if len(prices.wires) != len(topology.wires) or len(prices.groups) != len(topology.groups):
        return "the prices are not those of this topology's wires and groups"
    every = (*prices.wires, *prices.groups)
    if not all(isinstance(price, int) and price >= 0 for price in every):
        return "a price is no whole number, or negative"
    if any(price and wire.bandwidth is None for price, wire in zip(prices.wires, topology.wires, strict=True)):
        return "a wire without a limit has a price"
    by_link = [sum(prices.wires[w] for w in set(link.wires)) for link in topology.links]
    for group, price in zip(topology.groups, prices.groups, strict=True):
        for i in set(group.links):
            by_link[i] += price
    if not any(by_link):
        return "nothing that a link uses has a price"
    if max(by_link) * topology.ranks * 4 >= NONE // 4:
        return "the prices are too large to be added up"
    return by_link


def _matrix(topology: Topology, by_link: Sequence[int]) -> Whole:
    """The cheapest link between every two ranks."""
    costs = np.full((topology.ranks, topology.ranks), NONE, dtype=np.int64)
    for link, price in zip(topology.links, by_link, strict=True):
        costs[link.src, link.dst] = min(int(costs[link.src, link.dst]), price)
    return costs


def _cost(costs: Whole, name: CollectiveName, root: Rank | None, claim: PriceClaim) -> Fraction | str:
    """The cheapest way to move each byte of the buffer."""
    n = len(costs)
    if name == "allreduce":
        return _allreduce_cost(costs, claim)
    if claim.scope != "all" or claim.prices.parts or claim.backwards:
        return "trees with a sum, parts and backwards moments are of an allreduce"
    every: list[int | None]
    match name:
        case "allgather" | "broadcast" | "reducescatter" | "reduce":
            graph = costs if name in ("allgather", "broadcast") else costs.T
            roots = range(n) if name in ("allgather", "reducescatter") else [root or 0]
            every, units = [arborescence_cost(graph, r) for r in roots], len(roots)
        case _:
            lengths = shortest_paths(costs)
            paths = (
                lengths
                if name == "alltoall"
                else lengths[root or 0]
                if name == "scatter"
                else lengths[:, root or 0]
            )
            every, units = [None if x == NONE // 4 else int(x) for x in paths.ravel()], n
    return Fraction(sum(every), units) if _all_reached(every) else "some rank cannot be reached"  # type: ignore[arg-type]


def _all_reached(costs: Sequence[int | None]) -> bool:
    return None not in costs


def _allreduce_cost(costs: Whole, claim: PriceClaim) -> Fraction | str:
    n = len(costs)
    if claim.scope == "all":
        return every_allreduce(costs.T if claim.backwards else costs, claim.prices.parts)
    if claim.prices.parts or claim.backwards:
        return "parts and backwards moments are of a bound for every algorithm"
    both = [(arborescence_cost(costs, r), arborescence_cost(costs.T, r)) for r in range(n)]
    sums = [outward + inward for outward, inward in both if outward is not None and inward is not None]
    return Fraction(min(sums)) if len(sums) == n else "some rank cannot be reached"


def every_allreduce(costs: Whole, parts: Sequence[Sequence[Rank]]) -> Fraction | str:
    """The least cost of moves after which every rank has something from all, whatever the algorithm.

    Put the moves of one byte in the order of their ends. At first no part has something from all ranks together;
    take the first part X that does, and the rank h of X at which the move ends that brings it about. The moves
    until then hold a path to X from every rank outside. Of those after it: a set of ranks within another part,
    or within X and without h, does not have everything, so some move enters it; hence every rank is reached by a
    path from outside its part, or, in X, from h. Moves until then and after it, and moves into different parts,
    are different moves.

    Seen from the end the same holds backwards: ``costs`` may be transposed.
    """
    n = len(costs)
    if len(parts) < 2 or sorted(r for part in parts for r in part) != list(range(n)) or not all(parts):
        return "the parts are no partition of the ranks"
    entered = [_reach(costs, part, None) for part in parts]
    best: int | None = None
    for part, enter in zip(parts, entered, strict=True):
        before = _bring(costs, part)
        if enter is None or before is None:
            return "some rank cannot be reached"
        after = min(_reach(costs, part, h) or 0 for h in range(len(part)))
        cost = before + after + sum(x or 0 for x in entered) - enter
        best = cost if best is None else min(best, cost)
    return Fraction(best or 0)


def _reach(costs: Whole, part: Sequence[Rank], free: int | None) -> int | None:
    """The cheapest moves by which all of ``part`` is reached from outside, or from its rank number ``free``."""
    inside = list(part)
    outside = sorted(set(range(len(costs))) - set(inside))
    matrix = np.full((len(inside) + 1, len(inside) + 1), NONE, dtype=np.int64)
    matrix[1:, 1:] = costs[np.ix_(inside, inside)]
    matrix[0, 1:] = costs[np.ix_(outside, inside)].min(axis=0)
    if free is not None:
        matrix[0, free + 1] = 0
    return arborescence_cost(matrix, 0)


def _bring(costs: Whole, part: Sequence[Rank]) -> int | None:
    """The cheapest moves that lead from every rank outside ``part`` into it."""
    outside = sorted(set(range(len(costs))) - set(part))
    matrix = np.full((len(outside) + 1, len(outside) + 1), NONE, dtype=np.int64)
    matrix[1:, 1:] = costs[np.ix_(outside, outside)].T
    matrix[0, 1:] = costs[np.ix_(outside, list(part))].min(axis=1)
    return arborescence_cost(matrix, 0)
