"""Whole chunks: how many each tree carries, so that the fullest resource has little more than its share.

In: a fractional packing and a number of chunks. Out: a ``WholePacking``: a tree for each chunk. Candidates are
the trees of the packing and those that cost hardly more at its prices, with their images under the
automorphisms. Chunks begin where the packing's weights put them, rounded down; the rest goes, one by one, to
where a steep sum of loads grows least, and chunks move as long as that sum falls.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hetesynth.packing.column_generation import FractionalPacking
from hetesynth.packing.network import Floats, Ints, Network
from hetesynth.packing.symmetry import Automorphisms, Symmetry
from hetesynth.policy.packing import PackingPolicy


@dataclass(frozen=True, eq=False)
class Carrier:
    """What carries a chunk: ``outward``: links of a tree from ``root``; ``inward``: of one to it, in an
    allreduce."""

    root: int
    outward: Ints
    inward: Ints


@dataclass(frozen=True, eq=False)
class WholePacking:
    """``carriers[k]``: of chunk k. ``chunks_on[r]``: how many chunks resource r carries. ``seconds``: of the
    fullest resource for each byte of the buffer, all chunks being alike."""

    carriers: tuple[Carrier, ...]
    chunks_on: Floats
    seconds: float


@dataclass(frozen=True, eq=False)
class Candidates:
    """``carriers[k]`` of group ``group[k]`` with ``loads[k, r]`` chunks on resource r; ``shares[k]`` of the
    chunks of its group in the fractional packing."""

    carriers: tuple[Carrier, ...]
    group: Ints
    loads: Floats
    shares: Floats


NONE: Ints = np.array([], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Expansion:
    """A fractional packing with the network and the symmetry it was found with; ``free_root``: of an
    allreduce."""

    network: Network
    alike: Symmetry
    packing: FractionalPacking
    free_root: bool
    policy: PackingPolicy

    @cached_property
    def candidates(self) -> Candidates:
        """The trees that may carry chunks, images included."""
        sides: dict[tuple[int, bool], dict[bytes, tuple[Ints, float]]] = defaultdict(dict)
        rows = len(self.alike.representatives)
        automorphisms = Automorphisms(self.network)
        for i in self._near_optimal():
            structure = self.packing.structures[i]
            inward = self.free_root and structure.row >= rows
            for ranks in self.alike.ranks:
                root, links = int(ranks[structure.root]), automorphisms.images(structure.links, ranks)
                trees = sides[root, inward]
                key = np.sort(links).tobytes()
                before = trees[key][1] if key in trees else 0.0
                trees[key] = links, before + float(self.packing.weights[i]) / len(self.alike.ranks)
        return self._combined(sides)

    def _near_optimal(self) -> list[int]:
        """Structures with a weight, and the cheapest others of each row."""
        packing = self.packing
        by_link = self.network.link_prices(packing.prices)
        costs = np.array([by_link[s.links] @ s.crossings for s in packing.structures])
        by_row: dict[int, list[int]] = defaultdict(list)
        for i, structure in enumerate(packing.structures):
            by_row[structure.row].append(i)
        kept: list[int] = []
        for row in sorted(by_row):
            ordered = sorted(
                by_row[row], key=lambda i: (packing.weights[i] <= self.policy.least_weight, costs[i], i)
            )
            weighty = sum(packing.weights[i] > self.policy.least_weight for i in ordered)
            kept += ordered[: max(weighty, self.policy.trees_of_root)]
        return kept

    def _combined(self, sides: dict[tuple[int, bool], dict[bytes, tuple[Ints, float]]]) -> Candidates:
        carriers: list[Carrier] = []
        group: list[int] = []
        loads: list[Floats] = []
        shares: list[float] = []
        for root in sorted({root for root, _ in sides}):
            outward = sorted(sides[root, False].values(), key=lambda tree: -tree[1])
            inward = (
                sorted(sides[root, True].values(), key=lambda tree: -tree[1]) if self.free_root else [(NONE, 1.0)]
            )
            total = sum(w for _, w in outward)
            if self.free_root and total <= self.policy.least_weight:
                continue
            for (out, w), (back, v) in self._pairs(outward, inward):
                carriers.append(Carrier(root, out, back))
                group.append(0 if self.free_root else root)
                loads.append(self._loads(out) + self._loads(back))
                shares.append(
                    (w * v / max(sum(x for _, x in inward), 1e-300)) if self.free_root else w / max(total, 1e-300)
                )
        matrix = np.array(loads)
        return Candidates(tuple(carriers), np.array(group), matrix, np.array(shares))

    def _pairs(
        self, outward: list[tuple[Ints, float]], inward: list[tuple[Ints, float]]
    ) -> list[tuple[tuple[Ints, float], tuple[Ints, float]]]:
        most = self.policy.trees_of_root if self.free_root else len(outward)
        return [(o, i) for o in outward[:most] for i in inward[:most]]

    def _loads(self, links: Ints) -> Floats:
        crossings = np.bincount(links, minlength=len(self.network.src)).astype(np.float64)
        return self.network.loads(crossings)


def whole(expansion: Expansion, chunks: int) -> WholePacking:
    """``chunks`` chunks of each group: of every root, or of all roots together in an allreduce."""
    candidates, rate = expansion.candidates, expansion.network.rate
    groups = np.unique(candidates.group)
    pieces = chunks * len(groups)
    scaled = candidates.loads / rate / (pieces * expansion.packing.seconds)
    numbers = _Search(candidates, scaled, chunks, expansion.policy).run()
    load: Floats = numbers @ candidates.loads
    carriers = [candidates.carriers[k] for k in np.repeat(np.arange(len(numbers)), numbers)]
    return WholePacking(tuple(carriers), load, float((load / rate).max()) / pieces)


@dataclass
class _Search:
    """``scaled[k, r]``: what a chunk of candidate k adds to resource r, 1 being the fractional optimum's
    seconds."""

    candidates: Candidates
    scaled: Floats
    chunks: int
    policy: PackingPolicy

    def run(self) -> Ints:
        """How many chunks each candidate carries."""
        group = self.candidates.group
        members = {int(g): np.flatnonzero(group == g) for g in np.unique(group)}
        numbers: Ints = np.floor(self.candidates.shares * self.chunks + 1e-6).astype(np.int64)
        load: Floats = numbers @ self.scaled
        lacking = {g: self.chunks - int(numbers[of].sum()) for g, of in members.items()}
        while any(lacking.values()):
            for g, of in members.items():
                if lacking[g] > 0:
                    lacking[g] -= 1
                    best = self._best(load, of)
                    numbers[best] += 1
                    load = load + self.scaled[best]
        self._improve(numbers, load, members)
        return numbers

    def _steep(self, loads: Floats) -> Floats:
        sums: Floats = np.exp(self.policy.rounding_sharpness * (np.minimum(loads, 4.0) - 1.0)).sum(axis=-1)
        return sums

    def _best(self, load: Floats, of: Ints) -> int:
        return int(of[self._steep(load + self.scaled[of]).argmin()])

    def _improve(self, numbers: Ints, load: Floats, members: dict[int, Ints]) -> None:
        value = float(self._steep(load))
        for _ in range(self.policy.rounding_sweeps):
            before = value
            if load.max() <= 1.0 + self.policy.gap:
                break
            pressure = np.exp(self.policy.rounding_sharpness * (np.minimum(load, 4.0) - 1.0))
            carried = np.flatnonzero(numbers)
            for k in carried[np.argsort(-(self.scaled[carried] @ pressure), kind="stable")]:
                without = load - self.scaled[k]
                of = members[int(self.candidates.group[k])]
                to = self._best(without, of)
                moved = without + self.scaled[to]
                steep = float(self._steep(moved))
                if to != k and steep < value * (1 - 1e-9):
                    numbers[k] -= 1
                    numbers[to] += 1
                    load, value = moved, steep
            if value >= before * (1 - 1e-9):
                break
