"""Rechecks lower bounds on completion time from their witnesses, and works out what prices of resources prove.

What must cross and what can is worked out anew, in exact numbers; no code is shared with what found the bound.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from hetesynth.judge.bounds.prices import NONE, Whole, arborescence_cost, shortest_paths
from hetesynth.model.collective import CollectiveName
from hetesynth.model.time_bound import PartCrossings, ResourcePrices, SlowestPath, TimeBound, VertexCut
from hetesynth.model.topology import Rank, Topology
from hetesynth.model.verdict import Violation

Proved = tuple[Fraction, Fraction] | str  # seconds and seconds per byte, or what is wrong

_ALL_PAIRS = ("allgather", "reducescatter", "alltoall", "allreduce")
_KINDS = {"cut": VertexCut, "volume": PartCrossings, "prices": ResourcePrices, "latency": SlowestPath}
_BACKWARDS = {"reducescatter": "allgather", "scatter": "gather", "reduce": "broadcast"}


def time_bound_violations(
    topology: Topology, name: CollectiveName, root: Rank | None, bound: TimeBound
) -> list[Violation]:
    """Why ``bound`` does not follow from its witness; empty when it does."""
    if not isinstance(bound.witness, _KINDS[bound.kind]):
        return [Violation("certificate", f"the witness is none of a bound by {bound.kind}")]
    if bound.scope != "all" and bound.kind != "prices":
        return [Violation("certificate", f"a bound by {bound.kind} is not of algorithms that are {bound.scope}")]
    judge = _Judge(topology, name, root, bound.backwards)
    match bound.witness:
        case VertexCut():
            proved = judge.cut(bound.witness)
        case PartCrossings():
            proved = judge.parts(bound.witness)
        case ResourcePrices():
            proved = _proved_by_prices(topology, name, root, bound, bound.witness)
        case SlowestPath():
            proved = judge.path(bound.witness)
    if isinstance(proved, str):
        return [Violation("certificate", proved)]
    latency, per_byte = proved
    if bound.latency > latency:
        return [Violation("certificate", f"claims {bound.latency} s of latency; the witness shows {latency}")]
    if bound.seconds_per_byte > per_byte:
        claims = f"claims {bound.seconds_per_byte} s per byte"
        return [Violation("certificate", f"{claims}; the witness shows {per_byte}")]
    return []


@dataclass(frozen=True)
class _Judge:
    topology: Topology
    name: CollectiveName
    root: Rank | None
    backwards: bool

    @cached_property
    def links_over(self) -> dict[int, set[int]]:
        """The links over each wire that has some."""
        over: dict[int, set[int]] = defaultdict(set)
        for i, link in enumerate(self.topology.links):
            for w in link.wires:
                over[w].add(i)
        return over

    def _crossing(self, side: Collection[int]) -> dict[int, set[int]]:
        """The wires out of ``side`` (backwards: into it) that links use, with these links."""
        inside = set(side)
        crossing: dict[int, set[int]] = {}
        for w, links in self.links_over.items():
            wire = self.topology.wires[w]
            src, dst = (wire.dst, wire.src) if self.backwards else (wire.src, wire.dst)
            if src in inside and dst not in inside:
                crossing[w] = links
        return crossing

    def _carries(self, side: Collection[int], groups: Collection[int] = ()) -> Fraction | None:
        """Bytes per second out of ``side``, or None for no limit; ``groups`` stand in for wires of their links."""
        users = self._crossing(side)
        total = Fraction(0)
        covered: set[int] = set()
        for g in groups:
            group = self.topology.groups[g]
            total += group.bandwidth * group.lanes
            covered |= {w for w, links in users.items() if links <= set(group.links)}
        for w in users.keys() - covered:
            wire = self.topology.wires[w]
            if wire.bandwidth is None:
                return None
            total += wire.bandwidth * wire.lanes
        return total

    def _must_cross(self, side: Collection[int]) -> Fraction:
        """The share of the buffer that ranks inside ``side`` must get out of it (seen backwards: into it)."""
        n = self.topology.ranks
        inside = {r for r in side if r < n}
        if not inside or len(inside) == n:
            return Fraction(0)
        match _BACKWARDS.get(self.name, self.name) if self.backwards else self.name:
            case "allgather":
                return Fraction(len(inside), n)
            case "alltoall":
                return Fraction(len(inside) * (n - len(inside)), n)
            case "allreduce":
                return Fraction(1)
            case "broadcast":
                return Fraction(int(self.root in inside))
            case "gather":
                return Fraction(0 if self.root in inside else len(inside), n)
        return Fraction(0)

    def cut(self, witness: VertexCut) -> Proved:
        """What must leave a side against what can."""
        share = self._must_cross(witness.side)
        if witness.share <= 0:
            return "nothing is said to cross"
        if share < witness.share:
            return f"{share} of the buffer must cross, not {witness.share}"
        bandwidth = self._carries(witness.side, witness.groups)
        if not bandwidth or bandwidth > witness.bandwidth:
            return f"the side lets out {bandwidth} bytes per second, not {witness.bandwidth}"
        first = {i for users in self._crossing(witness.side).values() for i in users}
        return min(self.topology.links[i].latency for i in first), witness.share / witness.bandwidth

    def parts(self, witness: PartCrossings) -> Proved:
        """What all parts must take in against what they can."""
        n = self.topology.ranks
        if sorted(r for part in witness.parts for r in part) != list(range(n)):
            return "the parts are no partition of the ranks"
        if self.name not in _ALL_PAIRS or len(witness.parts) != len(witness.sides):
            return "not a bound for this collective"
        need = Fraction(len(witness.parts) - 1) * (2 if self.name == "allreduce" else 1)
        if self.name == "alltoall":
            need = Fraction(sum(len(p) * (n - len(p)) for p in witness.parts), n)
        if witness.share <= 0:
            return "nothing is said to cross"
        if need < witness.share:
            return f"only {need} of the buffer enters the parts"
        total = Fraction(0)
        for part, side in zip(witness.parts, witness.sides, strict=True):
            carried = self._enters(part, side)
            if not carried:
                return "a side does not separate its part from the other ranks by wires with a limit"
            total += carried
        return min(link.latency for link in self.topology.links), witness.share / total

    def _enters(self, part: Sequence[Rank], side: Sequence[int]) -> Fraction | None:
        """What the wires out of ``side`` carry, if it holds exactly the ranks that are not in ``part``."""
        ranks = {v for v in side if v < self.topology.ranks}
        if ranks != set(range(self.topology.ranks)) - set(part):
            return None
        return self._carries(side)

    def path(self, witness: SlowestPath) -> Proved:
        """A chain of links against their latencies, then what enters the last rank."""
        speaks = witness.src != witness.dst
        if self.name in ("broadcast", "scatter"):
            speaks = speaks and witness.src == self.root
        if self.name in ("gather", "reduce"):
            speaks = speaks and witness.dst == self.root
        if not speaks:
            return f"nothing of rank {witness.src} need reach rank {witness.dst}"
        n = self.topology.ranks
        whole = self.name in ("allreduce", "broadcast", "reduce")
        if witness.share > (Fraction(1) if whole else Fraction(1, n)):
            return "more than one rank has to say"
        per_byte = Fraction(0)
        if witness.share:
            carried = self._enters((witness.dst,), witness.side)
            if not carried:
                return "the side does not separate the last rank by wires with a limit"
            per_byte = witness.share / carried
        return self._latency(witness.src, witness.dst), per_byte

    def _latency(self, source: Rank, target: Rank) -> Fraction:
        """The least sum of latencies of links from ``source`` to ``target``; 0 where no link leads there."""
        leaving = defaultdict(list)
        for link in self.topology.links:
            leaving[link.src].append(link)
        done: set[Rank] = set()
        queue = [(Fraction(0), source)]
        while queue:
            latency, at = heapq.heappop(queue)
            if at == target:
                return latency
            if at not in done:
                done.add(at)
                for link in leaving[at]:
                    heapq.heappush(queue, (latency + link.latency, link.dst))
        return Fraction(0)


def _proved_by_prices(
    topology: Topology, name: CollectiveName, root: Rank | None, bound: TimeBound, prices: ResourcePrices
) -> Proved:
    """The latency and the seconds per byte that ``prices`` prove; no symmetry is trusted.

    Without coding, what moves of one byte of a buffer uses at least the links of a tree (or path) on which the
    byte first reaches each rank that wants it, or on which what each rank adds to it comes to the rank that wants
    the sum. So the cheapest trees and paths bound every schedule, however it cuts the buffer. ``every_allreduce``
    says what bounds an allreduce that follows no trees.
    """
    if len(prices.wires) != len(topology.wires) or len(prices.groups) != len(topology.groups):
        return "the prices are not those of this topology's wires and groups"
    if not all(isinstance(price, int) and price >= 0 for price in (*prices.wires, *prices.groups)):
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
    costs = np.full((topology.ranks, topology.ranks), NONE, dtype=np.int64)  # of the cheapest link of two ranks
    for link, price in zip(topology.links, by_link, strict=True):
        costs[link.src, link.dst] = min(int(costs[link.src, link.dst]), price)
    cost = _cost(costs, name, root, bound, prices)
    if isinstance(cost, str):
        return cost
    if not cost:
        return "nothing that must move has a price"
    latency = min(link.latency for link, price in zip(topology.links, by_link, strict=True) if price)
    carried = Fraction(0)  # price x bytes of all resources in a second
    for wire, price in zip(topology.wires, prices.wires, strict=True):
        carried += 0 if wire.bandwidth is None else wire.bandwidth * wire.lanes * price
    for group, price in zip(topology.groups, prices.groups, strict=True):
        carried += group.bandwidth * group.lanes * price
    return latency, cost / carried


def _cost(
    costs: Whole, name: CollectiveName, root: Rank | None, bound: TimeBound, prices: ResourcePrices
) -> Fraction | str:
    """The cheapest way to move each byte of the buffer."""
    n = len(costs)
    if name == "allreduce" and bound.scope == "all":
        return every_allreduce(costs.T if bound.backwards else costs, prices.parts)
    if name == "allreduce":
        if prices.parts or bound.backwards:
            return "parts and backwards moments are of a bound for every algorithm"
        both = [(arborescence_cost(costs, r), arborescence_cost(costs.T, r)) for r in range(n)]
        sums = [outward + inward for outward, inward in both if outward is not None and inward is not None]
        return Fraction(min(sums)) if len(sums) == n else "some rank cannot be reached"
    if bound.scope != "all" or prices.parts or bound.backwards:
        return "trees with a sum, parts and backwards moments are of an allreduce"
    every: list[int | None]
    match name:
        case "allgather" | "broadcast" | "reducescatter" | "reduce":
            graph = costs if name in ("allgather", "broadcast") else costs.T
            roots = range(n) if name in ("allgather", "reducescatter") else [root or 0]
            every, units = [arborescence_cost(graph, r) for r in roots], len(roots)
        case _:
            paths = shortest_paths(costs)
            if name != "alltoall":
                paths = paths[root or 0] if name == "scatter" else paths[:, root or 0]
            every, units = [None if x == NONE // 4 else int(x) for x in paths.ravel()], n
    reached = [cost for cost in every if cost is not None]
    return Fraction(sum(reached), units) if len(reached) == len(every) else "some rank cannot be reached"


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
        outside = sorted(set(range(n)) - set(part))
        before = _reach(costs.T, outside, None)  # the cheapest moves from every rank outside the part into it
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
