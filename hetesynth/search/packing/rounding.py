"""Whole chunks: how many each tree carries, so that the fullest resource has little more than its share.

Candidates are the trees of a fractional packing and those that cost hardly more at its prices, with their images
under the automorphisms. Chunks begin where the packing's weights put them, rounded down; the rest goes, one by
one, to where a steep sum of loads grows least, and chunks move as long as that sum falls.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hetesynth.machine_code import Floats, Ints
from hetesynth.search.copy_problem import grouped
from hetesynth.search.packing.column_generation import GAP, FractionalPacking
from hetesynth.search.packing.exchange_kernel import ROUND
from hetesynth.search.packing.network import Network
from hetesynth.search.packing.structures import Demands
from hetesynth.search.packing.symmetry import Automorphisms, Symmetry
from hetesynth.search.portable_math import added, dot, exp


@dataclass(frozen=True, eq=False)
class Carrier:
    """The trees of a chunk. ``outward``: links of one from ``root``; ``inward``: of one to it, in an allreduce."""

    root: int
    outward: Ints
    inward: Ints


@dataclass(frozen=True, eq=False)
class WholePacking:
    """Chunks on trees: ``carriers[k]`` of chunk k. ``chunks_on[r]``: the number on resource r. ``seconds``: of the
    fullest resource for each byte of the buffer, all chunks being alike; ``least``: what no packing is below;
    ``stars``: True if trees are of few levels."""

    carriers: tuple[Carrier, ...]
    chunks_on: Floats
    seconds: float
    least: float
    stars: bool = False

    @property
    def near_bound(self) -> bool:
        """True if the packing is as near to the optimum as a fractional packing has to be."""
        return self.least >= (1.0 - GAP) * self.seconds


NONE: Ints = np.array([], dtype=np.int64)
SHARPNESS = 40.0  # how steeply the sum of loads grows by which chunks are put on trees


@dataclass(frozen=True, eq=False)
class Expansion:
    """A fractional packing with the network and the symmetry it was found with. ``demands``: with a row for every
    rank. ``free_root``: True for an allreduce, whose chunks may have any root."""

    network: Network
    alike: Symmetry
    demands: Demands
    packing: FractionalPacking
    free_root: bool
    servers: Sequence[str]

    @cached_property
    def candidates(self) -> list[tuple[Carrier, Floats, float]]:
        """The trees that may carry chunks, with their loads and their shares of the chunks of their group."""
        sides: dict[tuple[int, bool], dict[bytes, tuple[Ints, float]]] = defaultdict(dict)
        rows = len(self.alike.representatives)
        automorphisms = Automorphisms(self.network)
        # structures with a weight, and the cheapest others of each row
        packing = self.packing
        by_link = self.network.link_prices(packing.prices)
        costs = [dot(by_link[s.links], s.crossings) for s in packing.structures]
        by_row = grouped(structure.row for structure in packing.structures)
        kept: list[int] = []
        least, few = 1e-9, 6  # a share of the buffer that counts; trees of each root to choose among
        for _, members in sorted(by_row.items()):
            ordered = sorted(members, key=lambda i: (packing.weights[i] <= least, costs[i], i))
            kept += ordered[: max(sum(packing.weights[i] > least for i in ordered), few)]
        for i in kept:
            structure = self.packing.structures[i]
            towards = self.free_root and structure.row >= rows
            for ranks in self.alike.ranks:
                root, links = int(ranks[structure.root]), automorphisms.images(structure.links, ranks)
                trees = sides[root, towards]
                key = np.sort(links).tobytes()
                before = trees[key][1] if key in trees else 0.0
                trees[key] = links, before + float(self.packing.weights[i]) / len(self.alike.ranks)
        candidates: list[tuple[Carrier, Floats, float]] = []
        for root in sorted({root for root, _ in sides}):
            outward = sorted(sides[root, False].values(), key=lambda tree: -tree[1])
            inward = (
                sorted(sides[root, True].values(), key=lambda tree: -tree[1]) if self.free_root else [(NONE, 1.0)]
            )
            total, back_total = added(w for _, w in outward), added(w for _, w in inward)
            if self.free_root and total <= least:
                continue
            most = few if self.free_root else len(outward)
            for (out, w), (back, v) in [(o, i) for o in outward[:most] for i in inward[:most]]:
                share = w * v / max(back_total, 1e-300) if self.free_root else w / max(total, 1e-300)
                candidates.append((Carrier(root, out, back), self.loads(out) + self.loads(back), share))
        return candidates

    def cheapest(self, prices: Floats) -> list[Carrier]:
        """The cheapest trees of every root at ``prices``, or of an allreduce's cheapest roots."""
        offer = self.demands.offer(prices / dot(prices, self.network.rate), None)
        if not self.free_root:
            return [Carrier(s.root, s.links, NONE) for s in offer.structures]
        many = len(offer.structures) // 2
        both = zip(offer.structures[:many], offer.structures[many:], strict=True)
        return [Carrier(outward.root, outward.links, inward.links) for outward, inward in both]

    def least_seconds(self, chunks: int) -> float:
        """Return seconds a byte of the buffer that ``chunks`` whole chunks at least load the fullest resource for:
        in less, what all resources carry is worth less, at the prices of the optimum, than the chunks cost."""
        packing, rate = self.packing, self.network.rate
        least = chunks * packing.bound * dot(packing.prices, rate) * (1.0 - ROUND)

        def possible(seconds: float) -> bool:
            return bool(dot(packing.prices, np.floor(seconds * chunks * rate + ROUND)) >= least)

        low = high = packing.bound
        while not possible(high):
            low, high = high, 2.0 * high
        while high - low > ROUND * high:
            middle = (low + high) / 2.0
            low, high = (low, middle) if possible(middle) else (middle, high)
        return low * (1.0 - ROUND)

    def loads(self, links: Ints) -> Floats:
        """Return the load of a chunk along ``links`` on each resource."""
        return self.network.loads_of(links, np.ones(len(links)))


def whole(expansion: Expansion, chunks: int) -> WholePacking:
    """Return a packing of ``chunks`` chunks of each group: of every root, or of all roots of an allreduce."""
    search = _Search(expansion, chunks)
    search.begin()
    search.improve()
    return search.packing()


def _steep(load: Floats, top: float) -> Floats:
    """The terms of a steep sum of loads."""
    with np.errstate(over="ignore"):  # of a few chunks one may be many times what a resource should carry
        terms: Floats = exp(SHARPNESS * (load / top - 1.0))
    return terms


class _Search:
    """The numbers of chunks on candidates. ``scaled[k, r]``: what a chunk of candidate k adds to resource r, 1
    being what the fractional optimum puts on the fullest."""

    def __init__(self, expansion: Expansion, chunks: int) -> None:
        carriers, loads, shares = zip(*expansion.candidates, strict=True)
        self.rate = expansion.network.rate
        self.expansion, self.chunks = expansion, chunks
        self.carriers: tuple[Carrier, ...] = carriers
        self.group = np.array([0 if expansion.free_root else carrier.root for carrier in carriers])
        self.pieces = chunks * len(np.unique(self.group))
        self.unit = self.pieces * expansion.packing.seconds * self.rate
        self.scaled: Floats = np.array(loads) / self.unit
        self.numbers: Ints = np.floor(np.array(shares) * chunks + ROUND).astype(np.int64)
        self.load: Floats = (self.numbers[:, None] * self.scaled).sum(axis=0)
        self.members = {int(g): np.flatnonzero(self.group == g) for g in np.unique(self.group)}
        self._factors: tuple[float, Floats] = 0.0, self.scaled[:0]

    @property
    def near_optimal(self) -> bool:
        return bool(self.load.max() <= 1.0 + GAP)

    def begin(self) -> None:
        """Put every chunk on some candidate, a chunk of each group in turn."""
        lacking = {g: self.chunks - int(self.numbers[of].sum()) for g, of in self.members.items()}
        while any(lacking.values()):
            for g, of in self.members.items():
                if lacking[g] > 0:
                    lacking[g] -= 1
                    best = self._best(self.load, of, max(1.0, float(self.load.max())))
                    self.numbers[best] += 1
                    self.load = self.load + self.scaled[best]

    def improve(self) -> None:
        """Offer every chunk another candidate, those on full resources first, as long as some move."""
        for _ in range(30):
            top, moved_some = max(1.0, float(self.load.max())), False
            if self.near_optimal:
                break
            value = float(_steep(self.load, top).sum())
            carried = np.flatnonzero(self.numbers)
            for k in carried[np.argsort(-dot(self.scaled[carried], self.pressure()), kind="stable")]:
                without = self.load - self.scaled[k]
                to = self._best(without, self.members[int(self.group[k])], top)
                moved = without + self.scaled[to]
                fallen = float(_steep(moved, top).sum())
                if to != k and fallen < value * (1.0 - ROUND):
                    self.numbers[k] -= 1
                    self.numbers[to] += 1
                    self.load, value, moved_some = moved, fallen, True
            if not moved_some:
                break

    def pressure(self) -> Floats:
        return _steep(self.load, max(1.0, float(self.load.max())))

    def _best(self, load: Floats, of: Ints, top: float) -> int:
        """The candidate of ``of`` by which the steep sum grows least; a chunk multiplies the terms by factors."""
        if self._factors[0] != top:
            with np.errstate(over="ignore"):
                self._factors = top, exp(SHARPNESS * self.scaled / top)
        return int(of[dot(self._factors[1][of], _steep(load, top)).argmin()])

    def packing(self) -> WholePacking:
        """Return the packing, with chunks in the order of their roots."""
        order = np.argsort([c.root for c in self.carriers], kind="stable")
        carriers = [self.carriers[k] for k in np.repeat(order, self.numbers[order])]
        chunks_on: Floats = self.load * self.unit
        seconds = float((chunks_on / self.rate).max()) / self.pieces
        return WholePacking(tuple(carriers), chunks_on, seconds, self.expansion.packing.bound)
