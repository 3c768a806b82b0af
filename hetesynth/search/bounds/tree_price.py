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

from hetesynth.model.bound import LowerBound
from hetesynth.model.collective import CollectiveName
from hetesynth.model.deadline import no_deadline
from hetesynth.model.problem import Problem
from hetesynth.model.topology import Rank
from hetesynth.policy.bounds import BoundsPolicy
from hetesynth.policy.packing import PackingPolicy
from hetesynth.search.bounds.packing import in_whole_numbers, tree_costs
from hetesynth.search.bounds.price import bound_of_prices
from hetesynth.search.packing.network import Network
from hetesynth.search.packing.optimum import optimal_packing


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
        whole = in_whole_numbers(prices, policy.tree_price_scale)
        costs = tree_costs(network, whole)
    except ValueError:
        return None
    paid = sum(number * int(costs[rank]) for rank, number in chunks.items())
    if not paid:
        return None
    charged = [problem.binding_resources[place] for _, place in network.limits]
    return bound_of_prices(zip(charged, whole, strict=True), paid, "trees")


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
