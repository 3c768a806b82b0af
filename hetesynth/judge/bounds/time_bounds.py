"""Rechecks lower bounds on completion time from their witnesses, and works out what prices of resources prove.

What must cross and what can is worked out anew, in exact numbers; no code is shared with what found the bound.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from hetesynth.judge.bounds.delays import delayed, into_parts, priced, promises_no_less
from hetesynth.judge.bounds.laws import NONE, Refuted, Whole, arborescence_cost, demand, shortest_paths
from hetesynth.model.bound import (
    DelayedPrices,
    PartCrossings,
    ResourcePrices,
    SlowestPath,
    Supply,
    TimeBound,
    VertexCut,
)
from hetesynth.model.collective import CollectiveName
from hetesynth.model.topology import Rank, Topology
from hetesynth.model.verdict import Violation

Proved = tuple[Fraction, Fraction, Supply]  # seconds, seconds per byte; what there is by when, where it says more

_ALL_PAIRS = ("allgather", "reducescatter", "alltoall", "allreduce")
_BACKWARDS = {"reducescatter": "allgather", "scatter": "gather", "reduce": "broadcast"}


def time_bound_violations(
    topology: Topology, name: CollectiveName, root: Rank | None, bound: TimeBound
) -> list[Violation]:
    """Return a violation that says why ``bound`` does not follow from its witness; none when it does."""
    try:
        kind, proved = _KINDS[bound.kind]
        demand(isinstance(bound.witness, kind), f"the witness is none of a bound by {bound.kind}")
        scope = f"a bound by {bound.kind} is not of algorithms that are {bound.scope}"
        demand(bound.scope == "all" or bound.kind == "prices", scope)
        latency, per_byte, supply = proved(_Judge(topology, name, root, bound), bound.witness)
        text = f"claims {bound.latency} s of latency; the witness shows {latency}"
        demand(bound.latency <= latency, text)
        text = f"claims {bound.seconds_per_byte} s per byte; the witness shows {per_byte}"
        demand(bound.seconds_per_byte <= per_byte, text)
        claims_less = not bound.supply or (bool(supply) and promises_no_less(bound.supply, supply))
        demand(claims_less, "the supply is said to be less than the witness shows")
        ordered = all(a[0] < b[0] for a, b in pairwise(bound.supply))
        rates = accumulate(rate for _, rate in bound.supply)
        demand(ordered and all(rate > 0 for rate in rates), "the supply is not in order of time, or negative")
    except Refuted as reason:
        return [Violation("certificate", str(reason))]
    return []


@dataclass(frozen=True)
class _Judge:
    topology: Topology
    name: CollectiveName
    root: Rank | None
    bound: TimeBound

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
            src, dst = (wire.dst, wire.src) if self.bound.backwards else (wire.src, wire.dst)
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
        match _BACKWARDS.get(self.name, self.name) if self.bound.backwards else self.name:
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
        """Return the latency and the seconds per byte of a cut: what must leave a side, divided by what can."""
        share = self._must_cross(witness.side)
        demand(witness.share > 0, "nothing is said to cross")
        demand(share >= witness.share, f"{share} of the buffer must cross, not {witness.share}")
        bandwidth = self._carries(witness.side, witness.groups)
        if not bandwidth or bandwidth > witness.bandwidth:
            raise Refuted(f"the side lets out {bandwidth} bytes per second, not {witness.bandwidth}")
        first = {i for users in self._crossing(witness.side).values() for i in users}
        return min(self.topology.links[i].latency for i in first), witness.share / witness.bandwidth, ()

    def parts(self, witness: PartCrossings) -> Proved:
        """Return latency, seconds per byte and supply: what all parts must take in, divided by what they can."""
        n = self.topology.ranks
        demand(_partition(witness.parts, n), "the parts are no partition of the ranks")
        sides = len(witness.parts) == len(witness.sides)
        demand(self.name in _ALL_PAIRS and sides, "not a bound for this collective")
        need = Fraction(len(witness.parts) - 1) * (2 if self.name == "allreduce" else 1)
        if self.name == "alltoall":
            need = Fraction(sum(len(p) * (n - len(p)) for p in witness.parts), n)
        demand(witness.share > 0, "nothing is said to cross")
        demand(need >= witness.share, f"only {need} of the buffer enters the parts")
        text = "a side does not separate its part from the other ranks by wires with a limit"
        pairs = zip(witness.parts, witness.sides, strict=True)
        total = sum((self._enters(part, side, text) for part, side in pairs), Fraction(0))
        home = {rank: number for number, part in enumerate(witness.parts) for rank in part}
        crossing = (x.latency for x in self.topology.links if home[x.src] != home[x.dst])
        latency, per_byte = min(crossing, default=Fraction(0)), witness.share / total
        if not witness.ends:
            return latency, per_byte, ()
        demand(self.name == "allreduce", "ends are of an allreduce")
        supply = into_parts(self.topology, witness)
        return supply[0][0], per_byte, supply

    def _enters(self, part: Sequence[Rank], side: Sequence[int], otherwise: str) -> Fraction:
        """Return the bytes per second out of ``side``, which must hold exactly the ranks outside ``part``."""
        ranks = {v for v in side if v < self.topology.ranks}
        demand(ranks == set(range(self.topology.ranks)) - set(part), otherwise)
        carried = self._carries(side)
        if not carried:
            raise Refuted(otherwise)
        return carried

    def path(self, witness: SlowestPath) -> Proved:
        """Return the least latency of a chain of links, and the seconds per byte of what enters its last rank."""
        speaks = witness.src != witness.dst
        speaks &= self.name not in ("broadcast", "scatter") or witness.src == self.root
        speaks &= self.name not in ("gather", "reduce") or witness.dst == self.root
        demand(speaks, f"nothing of rank {witness.src} need reach rank {witness.dst}")
        whole = self.name in ("allreduce", "broadcast", "reduce")
        most = Fraction(1, 1 if whole else self.topology.ranks)
        demand(witness.share <= most, "more than one rank has to say")
        per_byte = Fraction(0)
        if witness.share:
            text = "the side does not separate the last rank by wires with a limit"
            per_byte = witness.share / self._enters((witness.dst,), witness.side, text)
        return self._latency(witness.src, witness.dst), per_byte, ()

    def _latency(self, source: Rank, target: Rank) -> Fraction:
        """The least sum of latencies of links from ``source`` to ``target``; 0 where no link leads there."""
        leaving = defaultdict(list)
        for link in self.topology.links:
            leaving[link.src].append(link)
        done, queue = set[Rank](), [(Fraction(0), source)]
        while queue:
            latency, at = heapq.heappop(queue)
            if at == target:
                return latency
            if at not in done:
                done.add(at)
                for link in leaving[at]:
                    heapq.heappush(queue, (latency + link.latency, link.dst))
        return Fraction(0)

    def prices(self, witness: ResourcePrices) -> Proved:
        """The latency and the seconds per byte that prices prove; no symmetry is trusted.

        Without coding, what moves of one byte of a buffer uses at least the links of a tree (or path) on which the
        byte first reaches each rank that wants it, or on which what each rank adds to it comes to the rank that
        wants the sum. So the cheapest trees and paths bound every schedule, however it cuts the buffer.
        ``every_allreduce`` says what bounds an allreduce that follows no trees.
        """
        topology = self.topology
        by_link, resources = priced(topology, witness)
        carried = sum((earned for earned, _ in resources), Fraction(0))  # price x bytes of all in a second
        demand(any(by_link), "nothing that a link uses has a price")
        demand(max(by_link) * topology.ranks * 4 < NONE // 4, "the prices are too large to be added up")
        costs = np.full(
            (topology.ranks, topology.ranks), NONE, dtype=np.int64
        )  # of the cheapest link of two ranks
        for link, price in zip(topology.links, by_link, strict=True):
            costs[link.src, link.dst] = min(int(costs[link.src, link.dst]), price)
        cost = self._cost(costs, witness)
        demand(cost > 0, "nothing that must move has a price")
        latency = min(link.latency for link, price in zip(topology.links, by_link, strict=True) if price)
        supply: dict[Fraction, Fraction] = defaultdict(Fraction)
        for earned, links in resources:
            if links:
                supply[min(topology.links[i].latency for i in links)] += earned / cost
        return latency, cost / carried, tuple(sorted(supply.items()))

    def delays(self, witness: DelayedPrices) -> Proved:
        """Return latency, seconds per byte and supply of prices owed only while data can be on its way."""
        supply = delayed(self.topology, self.name, self.root, self.bound.backwards, witness)
        demand(bool(supply), "nothing can be on its way")
        return supply[0][0], 1 / sum((rate for _, rate in supply), Fraction(0)), supply

    def _cost(self, costs: Whole, prices: ResourcePrices) -> Fraction:
        """Return the price of the cheapest way to move each byte of the buffer."""
        n, name, root, bound = len(costs), self.name, self.root or 0, self.bound
        if name == "allreduce" and bound.scope == "all":
            return every_allreduce(costs.T if bound.backwards else costs, prices.parts)
        plain = not prices.parts and not bound.backwards
        if name == "allreduce":
            demand(plain, "parts and backwards moments are of a bound for every algorithm")
            inward, outward = ([arborescence_cost(graph, r) for r in range(n)] for graph in (costs.T, costs))
            return Fraction(min(a + b for a, b in zip(_reached(inward), _reached(outward), strict=True)))
        plain &= bound.scope == "all"
        demand(plain, "trees with a sum, parts and backwards moments are of an allreduce")
        if name in ("allgather", "broadcast", "reducescatter", "reduce"):
            graph = costs if name in ("allgather", "broadcast") else costs.T
            roots = range(n) if name in ("allgather", "reducescatter") else [root]
            return Fraction(sum(_reached(arborescence_cost(graph, r) for r in roots)), len(roots))
        paths = shortest_paths(costs)
        if name != "alltoall":
            paths = paths[root] if name == "scatter" else paths[:, root]
        return Fraction(sum(_reached(None if x == NONE // 4 else int(x) for x in paths.ravel())), n)


_KINDS: dict[str, tuple[type, Callable[[_Judge, Any], Proved]]] = {
    "cut": (VertexCut, _Judge.cut),
    "volume": (PartCrossings, _Judge.parts),
    "prices": (ResourcePrices, _Judge.prices),
    "latency": (SlowestPath, _Judge.path),
    "delays": (DelayedPrices, _Judge.delays),
}
"""For each kind of bound the witness that it needs, and what that proves."""


def _partition(parts: Sequence[Sequence[Rank]], ranks: int) -> bool:
    return sorted(r for part in parts for r in part) == list(range(ranks))


def _reached(costs: Iterable[int | None]) -> list[int]:
    """The costs; Refuted where one is None."""
    every = list(costs)
    whole = [cost for cost in every if cost is not None]
    demand(len(whole) == len(every), "some rank cannot be reached")
    return whole


def every_allreduce(costs: Whole, parts: Sequence[Sequence[Rank]]) -> Fraction:
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
    whole = len(parts) >= 2 and _partition(parts, n) and all(parts)
    demand(whole, "the parts are no partition of the ranks")
    entered = _reached(_reach(costs, part, None) for part in parts)
    outside = [sorted(set(range(n)) - set(part)) for part in parts]
    before = _reached(_reach(costs.T, ranks, None) for ranks in outside)  # into each part from every rank outside
    after = [min(_reach(costs, part, h) or 0 for h in range(len(part))) for part in parts]
    each = zip(entered, before, after, strict=True)
    return Fraction(min(come + go + sum(entered) - enter for enter, come, go in each))


def _reach(costs: Whole, part: Sequence[Rank], free: int | None) -> int | None:
    """Return the least cost of moves that reach all of ``part`` from outside or from its rank number ``free``."""
    inside = list(part)
    outside = sorted(set(range(len(costs))) - set(inside))
    matrix = np.full((len(inside) + 1, len(inside) + 1), NONE, dtype=np.int64)
    matrix[1:, 1:] = costs[np.ix_(inside, inside)]
    matrix[0, 1:] = costs[np.ix_(outside, inside)].min(axis=0)
    if free is not None:
        matrix[0, free + 1] = 0
    return arborescence_cost(matrix, 0)
