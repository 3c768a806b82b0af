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

from collections import Counter, defaultdict
from collections.abc import Iterable
from fractions import Fraction
from math import lcm
from typing import SupportsInt

import numpy as np
from numpy.typing import NDArray

from hetesynth.model.bound import LowerBound, PriceWitness
from hetesynth.model.collective import PERSONALIZED, CollectiveName
from hetesynth.model.deadline import no_deadline
from hetesynth.model.problem import Problem, Resource
from hetesynth.model.time_bound import ResourcePrices, Scope, TimeBound
from hetesynth.model.topology import Rank, Topology
from hetesynth.policy import PackingPolicy, Policy
from hetesynth.search.packing.column_generation import optimal_packing
from hetesynth.search.packing.network import Floats, Network
from hetesynth.search.packing.structures import BACKWARDS, ShortestPaths, contract

Ints = NDArray[np.int64]


def price_bound(problem: Problem) -> LowerBound | None:
    """The best price bound found, or None where it does not apply.

    In: a copying problem whose chunks each have one target besides their holders (alltoall, gather, scatter). Give
    every resource a price; a chunk pays at least its cheapest path, and a step earns at most the prices times the
    capacities. So steps >= sum of cheapest paths / sum of price x capacity, for any prices (linear programming
    duality of the multi-commodity flow of TE-CCL 4.1, without its time axis). Good prices come from multiplicative
    weights: route on cheapest paths, raise the price of what is busy, repeat. The final prices are integers and
    the bound is computed from them exactly.
    """
    if problem.ranks > 256:  # a round takes cubic time
        return None
    demand = np.zeros((problem.ranks, problem.ranks), dtype=np.int64)
    for pre, post in zip(problem.collective.pre, problem.collective.post, strict=True):
        targets = post - pre
        if targets and (len(pre) > 1 or len(targets) > 1):
            return None
        if targets:
            demand[min(pre), min(targets)] += 1
    if not demand.any():
        return None
    routing = _Routing(problem)
    price = 1.0 / routing.capacity
    best, prices = -1, np.zeros(0, dtype=np.int64)
    for _ in range(60):
        whole = np.maximum(np.rint(price / price.max() * 1_000_000), 1).astype(np.int64)
        cost, load = routing.route(whole, demand)
        steps = -(-cost // int(whole @ routing.capacity_int))
        if steps > best:
            best, prices = steps, whole
        busy = load / routing.capacity
        price = price * (1.0 + 0.3 * busy / busy.max())
        price = price / price.max()
    paid = routing.route(prices, demand)[0]
    return _bound_of_prices(zip(routing.resources, prices, strict=True), paid, "paths")


def _bound_of_prices(priced: Iterable[tuple[Resource, SupportsInt]], paid: int, what: str) -> LowerBound:
    """That a schedule pays ``paid`` at least, for its cheapest ``what``, at these whole-number prices."""
    listed = [(resource, int(price)) for resource, price in priced]
    earned = sum(price * resource.capacity for resource, price in listed)
    proof = f"the cheapest {what} cost {paid} at prices that let a step earn {earned}"
    witness = PriceWitness(tuple((resource.name, price) for resource, price in listed), paid, earned)
    return LowerBound(-(-paid // earned), "price", proof, witness)


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


def tree_price_bound(problem: Problem, policy: PackingPolicy) -> LowerBound | None:
    """The bound, or None where it does not apply: other chunks, too many ranks, ranks that cannot be reached.

    A chunk crosses at least the links of a tree that spans the ranks, so it pays at least the cheapest one from
    its rank; a step earns at most the prices times the capacities. The prices come in floating point from the
    packing of trees in steady state (``packing/``) with capacities for rates; what they prove is worked out from
    the rounded ones exactly. A bus that several links share is paid as often as a tree crosses it, which no cut
    sees.
    """
    everyone, chunks = frozenset(range(problem.ranks)), Counter[Rank]()
    if not 1 < problem.ranks <= 256:
        return None
    for pre, post in zip(problem.collective.pre, problem.collective.post, strict=True):
        if len(pre) != 1 or (pre | post) != everyone:
            return None
        chunks[min(pre)] += 1
    if not chunks:
        return None
    used: list[list[int]] = [[] for _ in problem.arcs]
    for number, resource in enumerate(problem.binding_resources):
        for arc in resource.arcs:
            used[arc].append(number)
    capacities = [Fraction(resource.capacity) for resource in problem.binding_resources]
    ends = [(arc.src, arc.dst) for arc in problem.arcs]
    network = Network.of_links(problem.ranks, ends, used, capacities, [0.0] * len(ends))
    # prices for other shares of the ranks prove less, nothing false
    name: CollectiveName = "allgather" if len(chunks) == problem.ranks else "broadcast"
    root = None if name == "allgather" else chunks.most_common(1)[0][0]
    servers = problem.servers or ("",) * problem.ranks
    try:
        prices = optimal_packing(network, name, root, servers, policy, no_deadline())[1].prices
        whole = _in_whole_numbers(prices, 72_072_000)  # a multiple of 1 to 24: simple ratios stay what they are
        costs = tree_costs(network, whole)
    except ValueError:
        return None
    paid = sum(number * int(costs[rank]) for rank, number in chunks.items())
    if not paid:
        return None
    charged = [problem.binding_resources[place] for _, place in network.limits]
    return _bound_of_prices(zip(charged, whole, strict=True), paid, "trees")


GRAIN = lcm(*range(1, 25))  # the highest price: how finely prices are rounded; simple ratios stay what they are
EXACT = 2**53  # below it floating point holds every whole number

Parts = tuple[tuple[Rank, ...], ...]


def price_bounds(topology: Topology, name: CollectiveName, root: Rank | None, policy: Policy) -> list[TimeBound]:
    """What prices prove; of allreduce for every algorithm, and for trees where that is more."""
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
        charged = network.link_prices(prices) > 0
        self.latency = min(topology.links[i].latency for i in np.flatnonzero(charged))

    def bound(
        self, cost: Fraction, name: CollectiveName, scope: Scope, parts: Parts = (), *, backwards: bool = False
    ) -> TimeBound:
        """That the collective costs at least ``cost`` for each byte of the buffer."""
        of = {"wire": [0] * len(self.topology.wires), "group": [0] * len(self.topology.groups)}
        for (what, place), price in zip(self.network.limits, self.prices, strict=True):
            of[what][place] = int(price)
        witness = ResourcePrices(tuple(of["wire"]), tuple(of["group"]), parts)
        shares: dict[str, Fraction] = defaultdict(Fraction)  # of the supply, by kind of resource
        for (what, place), price, rate in zip(self.network.limits, self.prices, self.network.rates, strict=True):
            kind = self.topology.wires[place].kind if what == "wire" else self.topology.groups[place].kind
            shares[kind] += int(price) * rate / self.supply
        ordered = sorted(((-share, kind) for kind, share in shares.items() if share))
        weights = ", ".join(f"{kind} ({float(-share):.0%} of the price)" for share, kind in ordered)
        lightest = "no set of paths" if name in PERSONALIZED else "no set of trees"
        if name == "allreduce":
            trees = scope == "tree-based"
            lightest = "no in-tree and out-tree of one root" if trees else "no order of sums and copies"
        proof = f"{lightest} is lighter on {weights}"
        return TimeBound("prices", self.latency, cost / self.supply, proof, witness, backwards, scope)

    def any_algorithm(self) -> TimeBound:
        """What every allreduce costs, by the parts that links without a price join."""
        costs, _ = self.network.cheapest(self.network.link_prices(self.prices))
        # ranks in parts: those that reach each other without a price
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


def tree_costs(network: Network, prices: Floats) -> Floats:
    """By root, what the cheapest tree to all ranks costs. Raises ValueError where it cannot reach one."""
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
