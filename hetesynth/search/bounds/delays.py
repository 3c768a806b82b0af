"""Bounds in seconds for latency and rate together: prices that are owed only while data can be on its way.

In: a topology, a collective's name, and what must be entered: sets of ranks, at prices of resources. Out: bounds
whose supply begins at each link when data can first have come to it, by latencies, and ends when what passes it
can no longer come to where it is wanted. docs/certificates.md has the proof. A set with a price on all that enters
it is a cut; the sets of the cheapest trees are the packing's dual.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate, pairwise
from math import lcm

import numpy as np

from hetesynth.machine_code import Bools, Ints
from hetesynth.model.bound import (
    DelayedPrices,
    EnteredSet,
    PartCrossings,
    ResourcePrices,
    Supply,
    TimeBound,
    of_scope,
)
from hetesynth.model.collective import CollectiveName
from hetesynth.model.pods import rate_of
from hetesynth.model.topology import Rank, Topology
from hetesynth.search.copy_problem import cheapest_links, transposed
from hetesynth.search.packing.structures import contract

SIZES = tuple(4**k for k in range(5, 18))
"""Bytes: a bound that says most at none of these is left out."""

SPANNING: tuple[CollectiveName, ...] = ("allgather", "reducescatter", "broadcast", "reduce")
"""Carried along trees to all ranks, or from all."""

Owed = tuple[int, tuple[tuple[int, int, int], ...]]
"""A link's price, and of each set that it enters from when and until how long before the end how much is owed."""


class Distances:
    """The least sums of link latencies between ranks, ``reach``, in whole numbers of which ``unit`` are a second;
    ``far`` or more: no link leads there."""

    def __init__(self, topology: Topology) -> None:
        n = topology.ranks
        self.unit = lcm(*(latency.denominator for latency in {link.latency for link in topology.links}))
        self.alpha = [int(link.latency * self.unit) for link in topology.links]
        self.far = sum(set(self.alpha)) * n + 1
        self.reach = np.full((n, n), self.far, dtype=np.int64 if self.far < 2**60 else object)
        for link, alpha in zip(topology.links, self.alpha, strict=True):
            self.reach[link.src, link.dst] = min(self.reach[link.src, link.dst], alpha)
        np.fill_diagonal(self.reach, 0)
        for via in range(n):  # Floyd 1962
            np.minimum(self.reach, self.reach[:, via, None] + self.reach[None, via, :], out=self.reach)

    @property
    def judged(self) -> bool:
        """True if sums of latencies are small enough to be rechecked, and ranks few enough to be looked at."""
        return 1 < len(self.reach) <= 256 and max(self.alpha, default=2**60) * len(self.reach) < 2**56

    def steps(self, most: int) -> list[int]:
        """Return 0 and at most ``most`` of the distances, rising to the farthest."""
        each = sorted({int(d) for d in self.reach.ravel() if 0 < d < self.far})
        number = min(most, len(each))
        return [0, *(each[-1 - k * len(each) // number] for k in reversed(range(number)))]


class Delayed:
    """The bounds of a collective with latencies on the way, seen backwards or not; ``root``: if it has one."""

    def __init__(
        self, topology: Topology, name: CollectiveName, root: Rank | None, far: Distances, *, backwards: bool
    ) -> None:
        self.topology, self.name, self.root, self.backwards, self.distances = topology, name, root, backwards, far
        self.reach = far.reach.T if backwards else far.reach
        ends = np.array([(link.src, link.dst) for link in topology.links]).T
        self.src, self.dst = ends[::-1] if backwards else ends
        self.over = transposed((set(link.wires) for link in topology.links), len(topology.wires))
        self.link_rate = np.array([float(link.bandwidth * link.lanes) for link in topology.links])

    def _entering(self, inside: Bools) -> Ints:
        return np.flatnonzero(~inside[self.src] & inside[self.dst])

    def _inside(self, ranks: Iterable[Rank]) -> Bools:
        inside = np.zeros(self.topology.ranks, dtype=np.bool_)
        inside[list(ranks)] = True
        return inside

    def first(self, root: Rank) -> list[float]:
        """Return the seconds from which on each link can carry what comes from ``root``."""
        unit, come = self.distances.unit, self.reach[root].tolist()
        return [(come[r] + a) / unit for r, a in zip(self.src.tolist(), self.distances.alpha, strict=True)]

    def entered(self, ranks: Sequence[Rank], weight: int = 1) -> EnteredSet:
        """Return ``ranks`` as an entered set, whose end is the rank that is farthest from where most enters."""
        if self.name == "alltoall":
            return EnteredSet(tuple(ranks), weight, None)
        links = self._entering(self._inside(ranks))
        wide = np.bincount(self.dst[links], self.link_rate[links], self.topology.ranks)
        end = max(ranks, key=lambda k: (float(wide @ self.reach[:, k]), -k))
        return EnteredSet(tuple(ranks), weight, self.root if self.name in ("gather", "scatter") else end)

    def cut(self, side: Iterable[int], groups: Iterable[int], proof: str, most: int = 4) -> list[TimeBound]:
        """Return the bounds by what must leave ``side`` (vertices), ``groups`` in place of wires they cover."""
        within, topology = set(side), self.topology
        covered = [set(topology.groups[g].links) for g in groups]
        wires = []
        for wire, links in zip(topology.wires, self.over, strict=True):
            src, dst = (wire.dst, wire.src) if self.backwards else (wire.src, wire.dst)
            crosses = bool(links) and src in within and dst not in within
            wires.append(int(crosses and not any(members.issuperset(links) for members in covered)))
        ranks = [r for r in range(topology.ranks) if r not in within]
        witness = DelayedPrices(
            tuple(wires), tuple(int(g in groups) for g in range(len(topology.groups))), (self.entered(ranks),)
        )
        if self.name == "allreduce":
            into = self._entering(self._inside(ranks))
            wide = np.bincount(self.src[into], self.link_rate[into], topology.ranks)
            others = [r for r in range(topology.ranks) if r in within]
            witness = replace(witness, source=max(others, key=lambda s: (float(self.reach[s] @ wide), -s)))
        return self.bounds(witness, proof, most)

    def trees(self, prices: ResourcePrices, proof: str, most: int = 4) -> list[TimeBound]:
        """Return the bounds by ``prices`` and the sets that the cheapest trees enter once."""
        n, by_link = self.topology.ranks, [0] * len(self.topology.links)
        for price, links in zip(prices.wires, self.over, strict=True):
            for i in links if price else ():
                by_link[i] += price
        for price, group in zip(prices.groups, self.topology.groups, strict=True):
            for i in set(group.links) if price else ():
                by_link[i] += price
        costs, _ = cheapest_links(n, self.src, self.dst, np.array(by_link, dtype=np.float64))
        tree = contract(costs)
        ranks: list[list[Rank]] = [[] for _ in tree.dual]
        for rank in range(n):
            at = rank
            while at < len(tree.dual) - 1:
                ranks[at].append(rank)
                at = int(tree.parent[at])
        sets = tuple(
            self.entered(within, int(weight)) for within, weight in zip(ranks, tree.dual, strict=True) if weight
        )
        return self.bounds(DelayedPrices(prices.wires, prices.groups, sets), proof, most if n <= 64 else 0)

    def bounds(self, witness: DelayedPrices, proof: str, most: int = 4) -> list[TimeBound]:
        """Return the bounds that ``witness`` shows, for all data and for data that comes from afar."""
        bounds = []
        if self.name in ("broadcast", "reduce", "allreduce"):  # from one rank
            most = 0
        for nearest in self.distances.steps(most):
            of_far = replace(witness, nearest=Fraction(nearest, self.distances.unit))
            supply = self._supply(of_far)
            if supply:
                first, last = (float(supply[place][0]) * 1e6 for place in (0, -1))
                text = f"{proof}, beside latencies of {first:.4g} us" + (
                    f" to {last:.4g} us" if first < last else ""
                )
                if nearest:
                    text += f" for what comes from {float(of_far.nearest) * 1e6:.4g} us away or farther"
                rate = sum((more for _, more in supply), Fraction(0))
                shown = TimeBound("delays", supply[0][0], 1 / rate, text, of_far, self.backwards, supply=supply)
                bounds.append(shown)
        return bounds

    def _supply(self, witness: DelayedPrices) -> Supply:
        """Return the ``Supply`` of the buffer: bytes per second from each delay on; () if nothing is shown."""
        resources = [
            (price, rate_of(wire) or Fraction(0), links)
            for price, wire, links in zip(witness.wires, self.topology.wires, self.over, strict=True)
            if price
        ] + [
            (price, group.bandwidth * group.lanes, list(group.links))
            for price, group in zip(witness.groups, self.topology.groups, strict=True)
            if price
        ]
        prices = [0] * len(self.topology.links)
        for price, _, links in resources:
            for i in links:
                prices[i] += price
        demand, rows = self._rows(witness)
        owed = {i: (prices[i], tuple(row)) for i, row in rows.items()}
        if not demand or any(sum(row[2] for row in row) > price for price, row in owed.values()):
            return ()
        total: dict[int, Fraction] = defaultdict(Fraction)
        for price, rate, links in resources:
            for delay, part in _parts({owed[i] for i in links if i in owed}).items():
                total[delay] += part * price * rate
        unit = self.distances.unit
        return tuple((Fraction(delay, unit), rate / demand) for delay, rate in sorted(total.items()))

    def _rows(self, witness: DelayedPrices) -> tuple[Fraction, Mapping[int, list[tuple[int, int, int]]]]:
        """Return the sum that a byte of the buffer owes, and for each link the rows of ``Owed``."""
        far, alpha = self.distances.far, self.distances.alpha
        rows: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        demand = Fraction(0)
        for each in witness.sets:
            inside = self._inside(each.ranks)
            ends = list(each.ranks) if each.end is None else [each.end]
            away = self.reach[:, ends].min(axis=1)
            counted = ~inside & (away >= int(witness.nearest * self.distances.unit))
            share = Fraction(int(counted.sum()) * len(ends), self.topology.ranks)
            if self.name in ("broadcast", "reduce", "allreduce"):
                source = self.root if witness.source is None else witness.source
                counted &= self._inside([source or 0])
                share = Fraction(1)
            if not counted.any():
                continue
            demand += each.weight * share
            come = self.reach[counted].min(axis=0)
            for i in self._entering(inside).tolist():
                begin, end = int(come[self.src[i]]), int(away[self.dst[i]])
                if begin < far and end < far:
                    row = (begin, end + alpha[i]) if self.backwards else (begin + alpha[i], end)
                    rows[i].append((*row, each.weight))
        return demand, rows


def _parts(owing: Iterable[Owed]) -> dict[int, Fraction]:
    """Return the part of a resource's price owed at each delay: before the first plus after the last moment."""
    stairs = []
    for price, rows in owing:
        ordered = [sorted((row[side], row[2]) for row in rows) for side in (0, 1)]
        sums = [accumulate(weight for _, weight in side) for side in ordered]
        begins, ends = (
            [(Fraction(s, price), time) for s, (time, _) in zip(*pair, strict=True)]
            for pair in zip(sums, ordered, strict=True)
        )
        stairs.append((begins, ends))
    parts: dict[int, Fraction] = defaultdict(Fraction)
    levels = sorted({level for pair in stairs for stair in pair for level, _ in stair})
    for low, high in pairwise((Fraction(0), *levels)):
        reaching = [pair for pair in stairs if pair[0][-1][0] >= high]
        begin, end = (min(pair[side][bisect_left(pair[side], (high,))][1] for pair in reaching) for side in (0, 1))
        parts[begin + end] += high - low
    return parts


def into_parts(topology: Topology, far: Distances, witness: PartCrossings) -> tuple[PartCrossings, Supply]:
    """Return the parts of an allreduce with the ends that are farthest from where most passes, and what can enter
    the parts by when it is of use to them."""
    parts, n = witness.parts, topology.ranks
    part_of = [0] * n
    for number, part in enumerate(parts):
        for rank in part:
            part_of[rank] = number
    crossing = [i for i, link in enumerate(topology.links) if part_of[link.src] != part_of[link.dst]]
    out, into = np.zeros(n), np.zeros(n)
    for link in (topology.links[i] for i in crossing):
        out[link.src] += float(link.bandwidth * link.lanes)
        into[link.dst] += float(link.bandwidth * link.lanes)
    inside = np.where(np.array(part_of)[:, None] == part_of, far.reach, 0).astype(np.float64)
    sent, heard = (inside * out).sum(axis=1).tolist(), (inside.T * into).sum(axis=1).tolist()
    ends = tuple(
        (max(part, key=lambda r: (sent[r], -r)), max(part, key=lambda r: (heard[r], -r))) for part in parts
    )
    least = min(far.alpha[i] for i in crossing)
    window: dict[tuple[int, int], list[int]] = {}
    sides = [frozenset(side) for side in witness.sides]
    for i in crossing:
        link, number = topology.links[i], part_of[topology.links[i].dst]
        begin = min(int(far.reach[ends[part_of[link.src]][0], link.src]), least) + far.alpha[i]
        end = min(int(far.reach[link.dst, ends[number][1]]), least)
        for w in link.wires:
            if topology.wires[w].src in sides[number] and topology.wires[w].dst not in sides[number]:
                widest = window.setdefault((number, w), [begin, end])
                widest[:] = min(widest[0], begin), min(widest[1], end)
    total: dict[int, Fraction] = defaultdict(Fraction)
    for (_, w), (begin, end) in window.items():
        each = (rate_of(topology.wires[w]) or Fraction(0)) / witness.share
        less, begin = each * (1 - Fraction(2, len(parts))), min(begin, 2 * least)
        total[begin + end] += each - less
        total[begin + least] += less
        total[2 * least + end] += less
        total[3 * least] -= less
    supply = tuple((Fraction(time, far.unit), more) for time, more in sorted(total.items()) if more)
    return replace(witness, ends=ends), supply


def worth(bounds: Sequence[TimeBound], others: Sequence[TimeBound]) -> list[TimeBound]:
    """Return the ``bounds`` that say most for some size in ``SIZES``, and more than ``others``."""
    kept = {}
    for size in SIZES if bounds else ():
        best = max(bounds, key=lambda b: b.seconds(size))
        if best.seconds(size) > max(b.seconds(size) for b in of_scope(others, "all")):
            kept[id(best)] = best
    return list(kept.values())
