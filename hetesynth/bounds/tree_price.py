"""The price bound for chunks that go to all ranks: the dual of packing trees into the capacities of a step.

In: a copying problem in which every chunk starts at one rank and ends at all. Out: a bound with prices of
resources. A chunk crosses at least the links of a tree that spans the ranks, so it pays at least the cheapest one
from its rank; a step earns at most the prices times the capacities. The prices come in floating point from the
packing of trees in steady state (``packing/``) with capacities for rates; what they prove is worked out from the
rounded ones exactly. A bus that several links share is paid as often as a tree crosses it, which no cut sees.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np

from hetesynth.model.bound import LowerBound, PriceWitness
from hetesynth.model.collective import CollectiveName
from hetesynth.model.deadline import no_deadline
from hetesynth.model.problem import Problem
from hetesynth.model.topology import Rank
from hetesynth.packing.contraction import contract
from hetesynth.packing.network import Network
from hetesynth.packing.optimum import optimal_packing
from hetesynth.packing.pairs import Floats
from hetesynth.policy.bounds import BoundsPolicy
from hetesynth.policy.packing import PackingPolicy


def tree_price_bound(problem: Problem, policy: BoundsPolicy, packing: PackingPolicy) -> LowerBound | None:
    """The bound, or None where it does not apply: other chunks, too many ranks, ranks that cannot be reached."""
    chunks = _chunks_by_rank(problem)
    if chunks is None or not 1 < problem.ranks <= policy.tree_price_ranks:
        return None
    network = _network(problem)
    name, root = _shape(chunks, problem.ranks)
    within = replace(packing, gap=policy.tree_price_gap, most_rounds=policy.packing_rounds)
    servers = problem.servers or tuple("" for _ in range(problem.ranks))
    try:
        prices = optimal_packing(network, name, root, servers, within, no_deadline())[1].prices
        whole = np.round(prices * (policy.tree_price_scale / prices.max()))
        costs = contract(network.pairs.cheapest(network.link_prices(whole))[0]).root_costs()
    except ValueError:
        return None
    paid = sum(number * int(costs[rank]) for rank, number in chunks.items())
    return _bound(problem, network, whole, paid)


def _chunks_by_rank(problem: Problem) -> Counter[Rank] | None:
    """How many chunks start at each rank; None where one starts at several, or does not go to all."""
    everyone, chunks = frozenset(range(problem.ranks)), Counter[Rank]()
    for pre, post in zip(problem.collective.pre, problem.collective.post, strict=True):
        if len(pre) != 1 or (pre | post) != everyone:
            return None
        chunks[min(pre)] += 1
    return chunks or None


def _shape(chunks: Counter[Rank], ranks: int) -> tuple[CollectiveName, Rank | None]:
    """What the packing is asked for: prices for other shares of the ranks prove less, nothing false."""
    return ("allgather", None) if len(chunks) == ranks else ("broadcast", chunks.most_common(1)[0][0])


def _network(problem: Problem) -> Network:
    """The links with what a step lets through."""
    used: list[list[int]] = [[] for _ in problem.arcs]
    for number, resource in enumerate(problem.binding_resources):
        for arc in resource.arcs:
            used[arc].append(number)
    capacities = [Fraction(resource.capacity) for resource in problem.binding_resources]
    ends = [(arc.src, arc.dst) for arc in problem.arcs]
    return Network.of_links(problem.ranks, ends, used, capacities, [0.0] * len(ends))


def _bound(problem: Problem, network: Network, whole: Floats, paid: int) -> LowerBound | None:
    resources = problem.binding_resources
    named = tuple((resources[place].name, int(p)) for (_, place), p in zip(network.limits, whole, strict=True))
    earned = sum(
        price * resources[place].capacity for (_, place), (_, price) in zip(network.limits, named, strict=True)
    )
    if not earned or not paid:
        return None
    proof = f"the cheapest trees cost {paid} at prices that let a step earn {earned}"
    return LowerBound(-(-paid // earned), "price", proof, PriceWitness(named, paid, earned))
