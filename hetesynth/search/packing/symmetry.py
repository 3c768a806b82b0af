"""Symmetry of a network: a small group of automorphisms, so that alike ranks are priced once; and classes of
vertices by color refinement, so that flows are sought between few nodes.

Averaging a packing over the group leaves its time as it is, so there is an optimal one that treats orbits alike.
Candidates are what clusters have: equal servers in turn, the GPUs of all servers or of one in turn, rows and
columns of grids. Images of resources are matched by sums of random words; no result rests on the match, as loads
and prices are worked out anew from what comes of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hetesynth.machine_code import Ints
from hetesynth.model.topology import Rank
from hetesynth.search.copy_problem import grouped
from hetesynth.search.packing.network import Network


@dataclass(frozen=True, eq=False)
class Symmetry:
    """A group of automorphisms: ``ranks[g]`` is the image of each rank under element g; element 0 is the identity.
    ``rank_orbit``, ``resource_orbit``: the orbit of each, numbered from 0 by first appearance."""

    ranks: Ints
    rank_orbit: Ints
    resource_orbit: Ints

    @property
    def representatives(self) -> Ints:
        """The first rank of each orbit."""
        return np.unique(self.rank_orbit, return_index=True)[1]


def symmetry(network: Network, servers: Sequence[str], largest: int, fixed: Rank | None = None) -> Symmetry:
    """Return a group of at most ``largest`` automorphisms, of those that leave rank ``fixed`` in its place."""
    checker = Automorphisms(network)
    generators: list[tuple[Ints, Ints]] = []
    group = [np.arange(network.ranks)]
    rank_orbit, resource_orbit = group[0], np.arange(len(network.rates))
    for candidate in candidates(servers, network.ranks, fixed):
        if np.array_equal(rank_orbit[candidate], rank_orbit):
            continue
        resources = checker.resources(candidate)
        closed = None if resources is None else closure([*(ranks for ranks, _ in generators), candidate], largest)
        if resources is not None and closed is not None:
            generators.append((candidate, resources))
            group = closed
            rank_orbit = _orbits([ranks for ranks, _ in generators], network.ranks)
            resource_orbit = _orbits([moved for _, moved in generators], len(network.rates))
    return Symmetry(np.array(group), rank_orbit, resource_orbit)


def trivial(network: Network) -> Symmetry:
    """Return the symmetry that is the identity alone."""
    ranks = np.arange(network.ranks)
    return Symmetry(ranks[None], ranks, np.arange(len(network.rates)))


class Automorphisms:
    """Extends permutations of ranks to links and resources."""

    def __init__(self, network: Network) -> None:
        self.network = network
        n, links = network.ranks, len(network.src)
        self.words = np.random.default_rng(0).integers(0, 2**63, size=links, dtype=np.uint64)
        self.rate_class = np.unique(network.rate, return_inverse=True)[1].astype(np.uint64)
        # parallel links told apart by latency and rate
        looks = np.stack([network.latency, network.link_rate, 1.0 * np.diff(network.uses_start)], axis=1)
        self.kind: Ints = np.unique(looks, axis=0, return_inverse=True)[1].reshape(-1)
        key = self._keys(np.arange(links), np.arange(n))
        self.order = np.argsort(key, kind="stable")
        self.sorted_key = key[self.order]
        self.place = np.empty(links, dtype=np.int64)  # of a link among those with its ends and kind
        self.place[self.order] = np.arange(links) - np.searchsorted(self.sorted_key, self.sorted_key)
        self.sums = self._sums(np.arange(links))
        self.sum_order = np.argsort(self.sums, kind="stable")

    def _sums(self, image: Ints) -> Words:
        """Return one word for each resource, of its rate and the images of its links."""
        network = self.network
        sums = np.zeros(len(network.rates), dtype=np.uint64)
        np.add.at(sums, network.uses, self.words[image[network.link_of_use]])
        return sums ^ (self.rate_class << np.uint64(1))

    def _keys(self, links: Ints, ranks: Ints) -> Ints:
        """Return a number of the ends and the kind of each of ``links``, once ``ranks`` are moved."""
        src, dst = ranks[self.network.src[links]], ranks[self.network.dst[links]]
        return np.asarray((src * self.network.ranks + dst) * (self.kind.max() + 1) + self.kind[links])

    def images(self, links: Ints, ranks: Ints) -> Ints:
        """Return the image of each of ``links`` under the automorphism that moves ``ranks``."""
        moved = self._keys(links, ranks)
        image: Ints = self.order[np.searchsorted(self.sorted_key, moved) + self.place[links]]
        return image

    def resources(self, ranks: Ints) -> Ints | None:
        """Return the image of each resource under the automorphism that moves ``ranks`` and keeps parallel links
        in order; None: there is none."""
        moved = self._keys(np.arange(len(self.kind)), ranks)
        order = np.argsort(moved, kind="stable")
        if not np.array_equal(moved[order], self.sorted_key):
            return None
        links = np.empty(len(moved), dtype=np.int64)
        links[order] = self.order
        sums = self._sums(links)
        image_order = np.argsort(sums, kind="stable")
        if not np.array_equal(sums[image_order], self.sums[self.sum_order]):
            return None
        resources = np.empty(len(sums), dtype=np.int64)
        resources[image_order] = self.sum_order
        return resources


def closure(generators: Sequence[Ints], largest: int) -> list[Ints] | None:
    """The group that ``generators`` make; None where it is larger than ``largest``."""
    group = [np.arange(len(generators[0]))]
    seen = {group[0].tobytes()}
    for element in group:
        for generator in generators:
            product = generator[element]
            if product.tobytes() not in seen:
                if len(group) >= largest:
                    return None
                seen.add(product.tobytes())
                group.append(product)
    return group


def _orbits(permutations: Sequence[Ints], size: int) -> Ints:
    orbit = np.arange(size)
    while True:
        smaller = orbit.copy()
        for permutation in permutations:
            np.minimum.at(smaller, permutation, orbit)
            smaller = np.minimum(smaller, smaller[permutation])
        if np.array_equal(smaller, orbit):
            return np.unique(orbit, return_inverse=True)[1]
        orbit = smaller


def candidates(servers: Sequence[str], n: int, fixed: Rank | None) -> Iterator[Ints]:
    """Permutations that may be automorphisms, those that move most ranks first; all leave ``fixed`` alone."""
    members = grouped(servers)
    blocks = [np.array(ranks) for ranks in members.values() if fixed not in ranks]
    if len(members) == 1 and fixed is None:  # a ring, and rows and columns of grids in turn or mirrored
        yield np.roll(np.arange(n), -1)
        for rows in (rows for rows in range(2, n // 2 + 1) if n % rows == 0):
            grid = np.arange(n).reshape(rows, n // rows)
            images = [np.roll(grid, 1, axis=0), np.roll(grid, 1, axis=1), grid[::-1], grid[:, ::-1], grid.T]
            yield from (image.ravel() for image in images[: 5 if rows * rows == n else 4])
    sizes = sorted({len(block) for block in blocks}, reverse=True)
    if len(blocks) > 1:
        for some in (sizes, *([size] for size in sizes)):  # each server to the next of its size
            image = np.arange(n)
            for size in some:
                alike = [block for block in blocks if len(block) == size]
                for block, following in zip(alike, alike[1:] + alike[:1], strict=True):
                    image[block] = following
            yield image
        for a, b in pairwise(blocks):
            if len(a) == len(b):
                image = np.arange(n)
                image[a], image[b] = b, a
                yield image

    def turned(block: Ints, step: int) -> Ints:
        return np.roll(block, -step)

    def paired(block: Ints, step: int) -> Ints:
        return block[np.arange(len(block)) ^ step] if len(block) % (2 * step) == 0 else block

    moves = [(move, step, blocks) for step in (1, 2, 4) for move in (turned, paired)]
    moves += [(turned, step, [block]) for block in blocks for step in (1, 2)]
    if fixed is not None:
        home = next(ranks for ranks in members.values() if fixed in ranks)
        moves.append((turned, 1, [np.array([r for r in home if r != fixed], dtype=np.int64)]))
    for move, step, some_blocks in moves:
        image = np.arange(n)
        for block in some_blocks:
            image[block] = move(block, step)
        yield image


StepGraph = tuple[Ints, Ints, Ints]
"""The edges of one step: source vertices, their ends, capacities or -1 for unlimited."""
Words = NDArray[np.uint64]


def classes(graph: StepGraph, colour: Ints) -> Ints:
    """The class of each vertex, numbered from 0 by first appearance; refines ``colour``.

    A flow that treats the members of a class alike is as large as any: average over the class, all along the
    refinement (Ramana, Scheinerman and Ullman 1994). So flows may be sought between classes, and a cut between
    classes is a cut. Colors are compared by 64-bit sums of mixed words; what comes of it is rechecked vertex by
    vertex.
    """
    current = _numbered(colour)
    count = int(current.max()) + 1
    src, dst, capacity = graph
    width = _mixed(capacity.astype(np.uint64))
    while True:
        seen = _mixed(current.astype(np.uint64))
        look = _mixed(seen)
        np.add.at(look, src, _mixed(seen[dst] + width))
        np.add.at(look, dst, _mixed(~seen[src] + width))
        refined = _numbered(look)
        number = int(refined.max()) + 1
        if number == count:
            return refined
        current, count = refined, number


def _numbered(values: NDArray[np.generic]) -> Ints:
    """Return the partition of ``values`` with numbers from 0, by first appearance."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def _mixed(words: Words) -> Words:
    """Return words in which every bit depends on every bit (finalizer of SplitMix64, Steele et al. 2014)."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
