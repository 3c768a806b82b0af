"""What the checkers of certificates share: refusing a claim, the reversed problem, who carries how much; prices,
and the cheapest trees and shortest paths that every judge of prices needs, exact."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hetesynth.model.bound import PriceWitness, SteppedPriceWitness
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Problem

REVERSED: dict[CollectiveName, CollectiveName] = {"reducescatter": "allgather", "reduce": "broadcast"}
NEVER = 1 << 60  # the distance to what no path reaches; twice this still fits 64 bits


Literal = tuple[str, bool]  # a name and whether it stands unnegated
Clause = tuple[Literal, ...]  # at least one holds; none: false


@dataclass(frozen=True, slots=True)
class AtMost:
    """A count: at most ``limit`` of the names are true; the names differ."""

    names: tuple[str, ...]
    limit: int


def shown(clause: Clause) -> str:
    """The beginning of ``clause`` for a message."""
    return " or ".join(name if positive else f"not {name}" for name, positive in clause[:4]) or "false"


class Refuted(Exception):
    """A certificate does not prove what it claims; the message says why."""


def demand(holds: bool, otherwise: str) -> None:
    """Raise Refuted(``otherwise``) unless ``holds``."""
    if not holds:
        raise Refuted(otherwise)


def is_count(text: str) -> bool:
    """Return True if ``text`` is a whole number of at most nine digits."""
    return text.isascii() and text.isdigit() and len(text) < 10


def turned_around(problem: Problem) -> Problem:
    """The problem that a witness marked ``backwards`` is about; it takes no more steps than ``problem``.

    A reduction to one rank per chunk becomes a copy from that rank: traced back from its complete value, every
    contribution took one path, and these paths form a tree that the copies run down (SCCL 3.4). A copy from one
    rank becomes a copy from any of its targets back to it: one of its paths, run backwards.
    """
    collective = problem.collective
    if not collective.reduces:
        single = all(len(pre) == 1 for pre in collective.pre)
        demand(single, "only chunks that start at one rank can be looked at backwards")
        return problem.reversed()
    single = collective.name in REVERSED and all(len(post) == 1 for post in collective.post)
    demand(single, f"{collective.name} is no reduction to one rank per chunk and has no reverse")
    turned = problem.reversed()
    return replace(turned, collective=replace(turned.collective, name=REVERSED[collective.name]))


def checked_ranks(problem: Problem, ranks: Iterable[int], what: str) -> set[int]:
    """``ranks`` as a set. Refuted when one is repeated or does not exist, or when there is none."""
    named = list(ranks)
    distinct = set(named)
    demand(bool(named), f"{what} is empty")
    demand(len(distinct) == len(named), f"{what} names a rank twice")
    demand(all(0 <= r < problem.ranks for r in distinct), f"{what} names a rank that does not exist")
    return distinct


def homes(problem: Problem, parts: Sequence[Sequence[int]]) -> dict[int, int]:
    """The number of the part of each rank. Refuted where ``parts`` is no partition of the ranks."""
    checked_ranks(problem, (r for part in parts for r in part), "the partition")
    home = {r: p for p, part in enumerate(parts) for r in part}
    demand(len(home) == problem.ranks, "the parts leave a rank out")
    demand(all(parts), "a part is empty")
    return home


def carried(problem: Problem, names: tuple[str, ...], links: set[int]) -> int:
    """Chunks that the resources ``names`` carry in a step. Refuted unless they cover every one of ``links``."""
    demand(bool(names), "no resource is named")
    distinct = set(names)
    demand(len(distinct) == len(names), "a resource is named twice")
    named = {resource.name: resource for resource in problem.resources if resource.name in distinct}
    for name in names:
        demand(name in named, f"there is no resource {name!r}")
    left = links.difference(*(resource.arcs for resource in named.values()))
    if left:
        arc = problem.arcs[min(left)]
        raise Refuted(f"no named resource limits link {min(left)} ({arc.src}->{arc.dst})")
    return sum(resource.capacity for resource in named.values())


def hops_over(beside: list[set[int]], start: Iterable[int]) -> list[int]:
    """Breadth-first distances over the neighbours ``beside``; NEVER where no path leads."""
    hops, away, reached = [NEVER] * len(beside), 0, set(start)
    while reached:
        for rank in reached:
            hops[rank] = away
        away += 1
        reached = {to for at in reached for to in beside[at] if hops[to] == NEVER}
    return hops


def quotient(needed: int, each: int) -> int:
    """Return the steps that ``needed`` chunks take at ``each`` chunks a step."""
    demand(each > 0, "nothing can be carried in a step")
    return -(-needed // each)


Whole = NDArray[np.int64]

MAX_PRICE = 1 << 32
MAX_RANKS = 4096
MAX_PRICED = 20_000_000  # links times steps times the places where chunks start
NONE = 2**62
"""More than any sum of costs that is added up; what is above the half of it is no edge."""


def price_steps(problem: Problem, claim: PriceWitness) -> int:
    """Return the steps of prices: load times price is at most ``earned`` a step, and at least ``paid`` in all."""
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


def stepped_price_steps(problem: Problem, claim: SteppedPriceWitness) -> int:
    """Return ``steps`` + 1: the transfers of ``steps`` steps pay ``earned`` at most, but ``paid`` at least, as a
    chunk leaves a holder, crosses links in steps one after the other and is at its dearest target in the end."""
    demand(not problem.collective.reduces, "prices of steps are about copies")
    work = claim.steps * len(problem.arcs) * len(set(problem.collective.pre))
    demand(0 < work <= MAX_PRICED, f"prices of {claim.steps} steps on these links are not rechecked")
    resources = {resource.name: resource for resource in problem.resources}
    cost = np.zeros((claim.steps, len(problem.arcs)), dtype=np.int64)
    earned, seen = 0, set[tuple[str, int]]()
    for name, step, price in claim.prices:
        demand(name in resources, f"there is no resource {name!r}")
        demand(0 <= step < claim.steps, f"there is no step {step}")
        demand(0 <= price <= MAX_PRICE, f"{name}: the price {price} is negative or too large")
        demand((name, step) not in seen, f"{name} has two prices in step {step}")
        seen.add((name, step))
        cost[step, list(resources[name].arcs)] += price
        earned += price * resources[name].capacity
    demand(claim.earned == earned, f"the steps are said to earn {claim.earned}, they can earn {earned}")
    src = np.array([arc.src for arc in problem.arcs], dtype=np.int64)
    dst = np.array([arc.dst for arc in problem.arcs], dtype=np.int64)
    cheapest: dict[frozenset[int], Whole] = {}
    paid = 0
    for pre, post in zip(problem.collective.pre, problem.collective.post, strict=True):
        if pre not in cheapest:
            at = np.full(problem.ranks, NEVER, dtype=np.int64)
            at[sorted(pre)] = 0
            for of_arc in cost:
                after = at.copy()
                np.minimum.at(after, dst, at[src] + of_arc)
                at = np.minimum(after, NEVER)
            cheapest[pre] = at
        paid += max((int(cheapest[pre][rank]) for rank in post), default=0)
    demand(0 <= claim.paid <= paid, f"the chunks are said to pay {claim.paid}, they need not pay more than {paid}")
    demand(claim.paid > earned, "all steps together earn what the chunks pay")
    return claim.steps + 1


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
    """Merge ``vertices`` into vertex ``into``; no edge leaves the others any more."""
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
