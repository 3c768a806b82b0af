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

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import lcm

import numpy as np

from hetesynth.machine_code import Floats
from hetesynth.model.bound import LowerBound, PriceWitness, ResourcePrices, Scope, TimeBound
from hetesynth.model.collective import PERSONALIZED, CollectiveName
from hetesynth.model.deadline import no_deadline
from hetesynth.model.problem import Problem
from hetesynth.model.topology import Rank, Topology
from hetesynth.policy import PackingPolicy, Policy
from hetesynth.search.copy_problem import CopyProblem, grouped, reachable, transposed
from hetesynth.search.packing.column_generation import optimal_packing
from hetesynth.search.packing.network import Network
from hetesynth.search.packing.structures import BACKWARDS, ShortestPaths, contract


def price_bound(problem: Problem, policy: PackingPolicy) -> LowerBound | None:
    """Return the bound by prices of chunks for one rank each (alltoall, gather, scatter) or for all; else None.

    A chunk pays at least its cheapest path, or the cheapest tree that spans the ranks, and a step earns at most
    the prices times the capacities. So steps >= what chunks pay / sum of price x capacity, for any prices (linear
    programming duality of the multi-commodity flow of TE-CCL 4.1, without its time axis). The prices come from the
    packing in steady state (``packing/``) with capacities for rates, rounded. A bus that several links share is
    paid as often as a tree crosses it, which no cut sees."""
    n, everyone = problem.ranks, frozenset(range(problem.ranks))
    if not 1 < n <= 256:
        return None
    ends = [(pre, post - pre) for pre, post in problem.collective.ends]
    moving = [(pre, targets) for pre, targets in ends if targets]
    apart = all(len(pre) == 1 == len(targets) for pre, targets in moving)
    if not moving or not (apart or all(len(pre) == 1 and pre | targets == everyone for pre, targets in ends)):
        return None
    capacities = [Fraction(resource.capacity) for resource in problem.binding_resources]
    joined = [(arc.src, arc.dst) for arc in problem.arcs]
    network = Network.of_links(n, joined, CopyProblem(problem).resources_of, capacities, [0.0] * len(joined))
    # prices for other shares of the ranks prove less, nothing false
    sources = Counter(min(pre) for pre, _ in moving)
    root = None if len(sources) > 1 else min(sources)
    name: CollectiveName = "alltoall" if apart else "allgather" if len(sources) == n else "broadcast"
    if name == "broadcast":
        root = sources.most_common(1)[0][0]
    elif apart and root is not None:
        name = "scatter"
    elif apart and len({targets for _, targets in moving}) == 1:
        name, root = "gather", min(moving[0][1])
    servers = problem.servers or ("",) * n
    try:
        prices = optimal_packing(network, name, root, servers, policy, no_deadline())[1].prices
        whole = _in_whole_numbers(prices, 72_072_000)  # a multiple of 1 to 24: simple ratios stay what they are
        if apart:
            costs = ShortestPaths(network, np.arange(n)).priced(whole)[0]
            paid = sum(int(costs[min(pre), min(targets)]) for pre, targets in moving)
        else:
            by_root = tree_costs(network, whole)
            paid = sum(number * int(by_root[rank]) for rank, number in sources.items())
    except (ValueError, OverflowError):  # some rank cannot be reached
        return None
    if not paid:
        return None
    charged = (problem.binding_resources[place] for _, place in network.limits)
    priced = [(resource, int(price)) for resource, price in zip(charged, whole, strict=True)]
    earned = sum(price * resource.capacity for resource, price in priced)
    proof = f"the cheapest {'paths' if apart else 'trees'} cost {paid} at prices that let a step earn {earned}"
    witness = PriceWitness(tuple((resource.name, price) for resource, price in priced), paid, earned)
    return LowerBound(-(-paid // earned), "price", proof, witness)


GRAIN = lcm(*range(1, 25))  # the highest price: how finely prices are rounded; simple ratios stay what they are
EXACT = 2**53  # below it floating point holds every whole number

Parts = tuple[tuple[Rank, ...], ...]


def price_bounds(topology: Topology, name: CollectiveName, root: Rank | None, policy: Policy) -> list[TimeBound]:
    """Return the bounds that prices prove; of allreduce for every algorithm, and for trees where that is more."""
    n = topology.ranks
    if not 1 < n <= 256:  # all different, 256 take 2 s for an allgather, 4 to 13 s for an allreduce
        return []
    network = Network.of(topology)
    try:
        servers = topology.servers
        prices = optimal_packing(network, name, root, servers, policy.packing, no_deadline(), gap=1e-6)[1].prices
        grain = min(GRAIN, EXACT // (4 * n * int(np.diff(network.uses_start).max())))
        priced = _Priced(topology, network, _in_whole_numbers(prices, grain))
        if name != "allreduce":  # the cheapest trees, or paths, of each byte of the buffer
            graph = network.reversed() if name in BACKWARDS else network
            if name in PERSONALIZED:
                sources = np.arange(n) if root is None else np.array([root])
                costs = ShortestPaths(graph, sources).priced(priced.prices)[0].ravel()
            else:
                costs = tree_costs(graph, priced.prices)
            each = root is None or name in PERSONALIZED
            paid = Fraction(sum(map(int, costs)), n) if each else Fraction(int(costs[root]))
            return [priced.bound(paid, name, "all")]
        outward, inward = (tree_costs(g, priced.prices) for g in (network, network.reversed()))
        trees = priced.bound(Fraction(int((outward + inward).min())), name, "tree-based")
        every = priced.any_algorithm()
    except ValueError:  # some rank cannot be reached
        return []
    return [b for b in (every, trees) if b is every or b.seconds_per_byte > every.seconds_per_byte]


def early_prices(
    topology: Topology, name: CollectiveName, root: Rank, policy: Policy, first: Sequence[float], horizon: float
) -> ResourcePrices | None:
    """Return prices that prove much where ``horizon`` seconds are all there is and link i is of use from
    ``first[i]`` on: those of a cluster whose resources have less of their rate the later they begin; or None."""
    network = Network.of(topology)
    begin = np.full(len(network.rates), np.inf)
    np.minimum.at(begin, network.uses, np.asarray(first)[network.link_of_use])
    shares = np.maximum(1 - begin / horizon, 1e-3).tolist()
    rates = tuple(rate * Fraction(share) for rate, share in zip(network.rates, shares, strict=True))
    less = replace(network, rates=rates)
    try:
        prices = optimal_packing(less, name, root, topology.servers, policy.packing, no_deadline())[1].prices
        return _Priced(topology, network, _in_whole_numbers(prices, GRAIN)).witness
    except ValueError:  # some rank cannot be reached
        return None


def _in_whole_numbers(prices: Floats, grain: int) -> Floats:
    """Prices rounded so that the highest is ``grain``, without a common divisor."""
    whole = np.round(prices * (grain / prices.max()))
    smallest: Floats = whole / np.gcd.reduce(whole.astype(np.int64))
    return smallest


class _Priced:
    """A cluster at whole-number ``prices`` of the network's resources."""

    def __init__(self, topology: Topology, network: Network, prices: Floats) -> None:
        self.topology, self.network, self.prices = topology, network, prices
        self.supply = sum((int(p) * r for p, r in zip(prices, network.rates, strict=True)), Fraction(0))
        earned: dict[Fraction, Fraction] = defaultdict(Fraction)  # in a second, by when bytes flow at the earliest
        users = transposed((network.uses[i:j].tolist() for i, j in pairwise(network.uses_start)), len(prices))
        for price, rate, links in zip(prices, network.rates, users, strict=True):
            if price:
                earned[min(topology.links[i].latency for i in links)] += int(price) * rate
        self.earned = sorted(earned.items())

    @property
    def witness(self) -> ResourcePrices:
        """The prices, by wire and group of the topology."""
        of = {"wire": [0] * len(self.topology.wires), "group": [0] * len(self.topology.groups)}
        for (what, place), price in zip(self.network.limits, self.prices, strict=True):
            of[what][place] = int(price)
        return ResourcePrices(tuple(of["wire"]), tuple(of["group"]))

    def bound(
        self, cost: Fraction, name: CollectiveName, scope: Scope, parts: Parts = (), *, backwards: bool = False
    ) -> TimeBound:
        """Return the bound that the collective costs at least ``cost`` for each byte of the buffer."""
        shares: dict[str, Fraction] = defaultdict(Fraction)  # of the supply, by kind of resource
        for (what, place), price, rate in zip(self.network.limits, self.prices, self.network.rates, strict=True):
            kind = self.topology.wires[place].kind if what == "wire" else self.topology.groups[place].kind
            shares[kind] += int(price) * rate / self.supply
        witness = replace(self.witness, parts=parts)
        ordered = sorted(((-share, kind) for kind, share in shares.items() if share))
        weights = ", ".join(f"{kind} ({float(-share):.0%} of the price)" for share, kind in ordered)
        lightest = "no set of paths" if name in PERSONALIZED else "no set of trees"
        if name == "allreduce":
            trees = scope == "tree-based"
            lightest = "no in-tree and out-tree of one root" if trees else "no order of sums and copies"
        proof = f"{lightest} is lighter on {weights}"
        supply = (
            tuple((first, rate / cost) for first, rate in self.earned) if len(self.earned) > 1 and cost else ()
        )
        first = self.earned[0][0]
        return TimeBound("prices", first, cost / self.supply, proof, witness, backwards, scope, supply)

    def any_algorithm(self) -> TimeBound:
        """Return the bound for every algorithm of an allreduce, by the parts that links without a price join."""
        costs, _ = self.network.cheapest(self.network.link_prices(self.prices))
        # ranks in parts: those that reach each other without a price
        free = reachable(len(costs), zip(*np.nonzero(costs == 0), strict=True))
        parts = tuple(map(tuple, grouped((free & free.T).argmax(axis=1).tolist()).values()))
        forwards, backwards = _gossip(costs, parts), _gossip(costs.T, parts)
        most = Fraction(max(forwards, backwards))
        return self.bound(most, "allreduce", "all", parts, backwards=backwards > forwards)


def tree_costs(network: Network, prices: Floats) -> Floats:
    """Return the cost of the cheapest tree to all ranks, by root. Raises ValueError where it cannot reach one."""
    return contract(network.cheapest(network.link_prices(prices))[0]).root_costs()


def _gossip(costs: Floats, parts: Parts) -> int:
    """The least cost of moves after which every rank has the contributions of all."""
    part_of = np.empty(len(costs), dtype=np.int64)
    for number, part in enumerate(parts):
        part_of[list(part)] = number
    crossing = np.where(part_of[:, None] == part_of[None, :], np.inf, costs).min(axis=0)
    entered = [int(min(crossing[r] for r in part)) for part in parts]
    gathered = contract(costs.T).root_costs()
    sums = (int(gathered[part[0]]) - enter for part, enter in zip(parts, entered, strict=True))
    return min(sums) + sum(entered)
