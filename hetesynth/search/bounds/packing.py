"""Bounds in seconds from prices of resources: no packing of trees or paths is lighter.

In: a topology and a collective's name. Out: prices of wires and stated groups, as whole numbers, with what they
prove. At any prices a byte costs at least its cheapest tree or path, and in a second the resources carry no more
than the sum of price x rate. The prices come in floating point from the optimal packing; what they prove is worked
out from the rounded ones without rounding: all sums are whole numbers below 2^53, which floating point holds
exactly.

An allreduce that is based on trees takes an in-tree and an out-tree of one root. Whatever an algorithm does
without coding, there is a first moment at which the ranks of some part together have all contributions;
``_gossip`` says what must have happened before it and after it. Knows no chunks, steps or schedules.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from math import lcm

import numpy as np

from hetesynth.model.collective import CollectiveName
from hetesynth.model.deadline import no_deadline
from hetesynth.model.time_bound import ResourcePrices, Scope, TimeBound
from hetesynth.model.topology import Rank, Topology
from hetesynth.policy import Policy
from hetesynth.search.packing.contraction import contract
from hetesynth.search.packing.network import Network
from hetesynth.search.packing.optimum import optimal_packing
from hetesynth.search.packing.pairs import Floats
from hetesynth.search.packing.structures import BACKWARDS, ShortestPaths

GRAIN = lcm(*range(1, 25))  # the highest price: how finely prices are rounded; simple ratios stay what they are
EXACT = 2**53  # below it floating point holds every whole number

Parts = tuple[tuple[Rank, ...], ...]


def price_bounds(topology: Topology, name: CollectiveName, root: Rank | None, policy: Policy) -> list[TimeBound]:
    """What prices prove; of allreduce for every algorithm, and for trees where that is more.

    Empty for clusters of more ranks than the policy allows, or where some rank cannot be reached.
    """
    n = topology.ranks
    if not 1 < n <= policy.bounds.packing_ranks:
        return []
    network = Network.of(topology)
    try:
        packing = replace(policy.packing, gap=policy.bounds.packing_gap, most_rounds=policy.bounds.packing_rounds)
        prices = optimal_packing(network, name, root, topology.servers, packing, no_deadline())[1].prices
        priced = _Priced(
            topology,
            network,
            (
                in_whole_numbers(
                    prices, min(GRAIN, EXACT // (4 * topology.ranks * int(np.diff(network.uses_start).max())))
                )
            ),
        )
        if name != "allreduce":
            return [priced.bound(_copies(network, priced.prices, name, root), name, "all")]
        outward, inward = (tree_costs(g, priced.prices) for g in (network, network.reversed()))
        trees = priced.bound(Fraction(int((outward + inward).min())), name, "tree-based")
        every = priced.any_algorithm()
    except ValueError:  # some rank cannot be reached
        return []
    return [b for b in (every, trees) if b is every or b.seconds_per_byte > every.seconds_per_byte]


def in_whole_numbers(prices: Floats, grain: int) -> Floats:
    """Prices rounded so that the highest is ``grain``, without a common divisor."""
    whole = np.round(prices * (grain / prices.max()))
    smallest: Floats = whole / np.gcd.reduce(whole.astype(np.int64))
    return smallest


class _Priced:
    """A cluster at whole-number ``prices`` of the network's resources."""

    def __init__(self, topology: Topology, network: Network, prices: Floats) -> None:
        self.topology, self.network, self.prices = topology, network, prices
        self.supply = sum((int(p) * r for p, r in zip(prices, network.rates, strict=True)), Fraction(0))
        charged = network.link_prices(prices) > 0
        self.latency = min(topology.links[i].latency for i in np.flatnonzero(charged))

    def bound(
        self, cost: Fraction, name: CollectiveName, scope: Scope, parts: Parts = (), *, backwards: bool = False
    ) -> TimeBound:  # fmt: skip
        """That the collective costs at least ``cost`` for each byte of the buffer."""
        of = {"wire": [0] * len(self.topology.wires), "group": [0] * len(self.topology.groups)}
        for (what, place), price in zip(self.network.limits, self.prices, strict=True):
            of[what][place] = int(price)
        witness = ResourcePrices(tuple(of["wire"]), tuple(of["group"]), parts)
        proof = f"{_lightest(name, scope)} is lighter on {self._weights()}"
        return TimeBound("prices", self.latency, cost / self.supply, proof, witness, backwards, scope)

    def _weights(self) -> str:
        """The kinds of resources with their shares of the supply."""
        shares: dict[str, Fraction] = defaultdict(Fraction)
        for (what, place), price, rate in zip(self.network.limits, self.prices, self.network.rates, strict=True):
            kind = self.topology.wires[place].kind if what == "wire" else self.topology.groups[place].kind
            shares[kind] += int(price) * rate / self.supply
        ordered = sorted(((-share, kind) for kind, share in shares.items() if share))
        return ", ".join(f"{kind} ({float(-share):.0%} of the price)" for share, kind in ordered)

    def any_algorithm(self) -> TimeBound:
        """What every allreduce costs, by the parts that links without a price join."""
        costs = _costs(self.network, self.prices)
        # ranks in parts
        n = len(costs)
        reach = ((costs == 0) | np.eye(n, dtype=np.bool_)).astype(np.float32)
        for _ in range(n.bit_length()):
            reach = np.minimum(reach @ reach, 1.0)
        first = ((reach > 0) & (reach.T > 0)).argmax(axis=1)
        members: dict[int, list[Rank]] = defaultdict(list)
        for rank, part in enumerate(first):
            members[int(part)].append(rank)
        parts = tuple(tuple(ranks) for ranks in members.values())
        forwards, backwards = _gossip(costs, parts), _gossip(costs.T, parts)
        most = Fraction(max(forwards, backwards))
        return self.bound(most, "allreduce", "all", parts, backwards=backwards > forwards)


def _lightest(name: CollectiveName, scope: Scope) -> str:
    if name == "allreduce":
        return "no in-tree and out-tree of one root" if scope == "tree-based" else "no order of sums and copies"
    return "no set of paths" if name in ("alltoall", "scatter", "gather") else "no set of trees"


def _costs(network: Network, prices: Floats) -> Floats:
    costs, _ = network.pairs.cheapest(network.link_prices(prices))
    return costs


def tree_costs(network: Network, prices: Floats) -> Floats:
    """By root, what the cheapest tree to all ranks costs. Raises ValueError where it cannot reach one."""
    return contract(_costs(network, prices)).root_costs()


def _copies(network: Network, prices: Floats, name: CollectiveName, root: Rank | None) -> Fraction:
    """The cheapest trees, or paths, of each byte of the buffer."""
    n = network.ranks
    graph = network.reversed() if name in BACKWARDS else network
    if name in ("alltoall", "scatter", "gather"):
        sources = np.arange(n) if root is None else np.array([root])
        return Fraction(_total(ShortestPaths(graph, sources).priced(prices)[0].ravel()), n)
    of_roots = tree_costs(graph, prices)
    return Fraction(_total(of_roots), n) if root is None else Fraction(int(of_roots[root]))


def _total(costs: Floats) -> int:
    return sum(int(cost) for cost in costs)


def _gossip(costs: Floats, parts: Parts) -> int:
    """The least cost of moves after which every rank has the contributions of all.

    Take the first moment at which the ranks of some part X together have all contributions. Moves until then hold
    a path from every other rank to X: an in-tree to X. At that moment no other part has everything together; so a
    move after it enters each of them. Within parts moves cost nothing.
    """
    part_of = np.empty(len(costs), dtype=np.int64)
    for number, part in enumerate(parts):
        part_of[list(part)] = number
    crossing = np.where(part_of[:, None] == part_of[None, :], np.inf, costs).min(axis=0)
    entered = [int(min(crossing[r] for r in part)) for part in parts]
    gathered = contract(costs.T).root_costs()
    sums = (int(gathered[part[0]]) - enter for part, enter in zip(parts, entered, strict=True))
    return min(sums) + sum(entered)
