"""The links of a cluster and the resources they draw from, as arrays for the pricing of trees and paths.

A resource is a wire with a bandwidth or a stated group; one that another implies (its links all draw from a
resource that is no faster) is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from hetesynth.machine_code import Floats, Ints
from hetesynth.model.pods import rate_of
from hetesynth.model.topology import Rank, Topology
from hetesynth.search.copy_problem import transposed


@dataclass(frozen=True, eq=False)
class Network:
    """``src[i]``, ``dst[i]``: ends of link i, which draws from ``uses[uses_start[i]:uses_start[i + 1]]``;
    ``latency``: its seconds. ``rates[r]``: bytes per second of resource r, exact; ``limits[r]``: what it is in the
    topology, ("wire", index) or ("group", index), or ("resource", index) where links were given without one."""

    ranks: int
    src: Ints
    dst: Ints
    uses_start: Ints
    uses: Ints
    rates: tuple[Fraction, ...]
    limits: tuple[tuple[str, int], ...]
    latency: Floats

    @classmethod
    def of(cls, topology: Topology) -> Network:
        """The network of all links of ``topology``."""
        ends = [(link.src, link.dst) for link in topology.links]
        # every wire with a bandwidth and every group, with the links that draw from it
        over = transposed((set(link.wires) for link in topology.links), len(topology.wires))
        rates = [rate_of(wire) if links else None for wire, links in zip(topology.wires, over, strict=True)]
        limits: list[Limit] = [(("wire", w), r, frozenset(over[w])) for w, r in enumerate(rates) if r is not None]
        groups = enumerate(topology.groups)
        limits += [(("group", g), group.bandwidth * group.lanes, frozenset(group.links)) for g, group in groups]
        return cls._of_limits(topology.ranks, ends, limits, [float(x.latency) for x in topology.links])

    @classmethod
    def of_links(
        cls,
        ranks: int,
        ends: Sequence[tuple[Rank, Rank]],
        resources: Sequence[Sequence[int]],
        rates: Sequence[Fraction],
        latency: Sequence[float],
    ) -> Network:
        """Return the network in which link i joins ``ends[i]`` and draws from ``resources[i]``."""
        users = transposed(resources, len(rates))
        limits = [(("resource", r), rates[r], frozenset(links)) for r, links in enumerate(users) if links]
        return cls._of_limits(ranks, ends, limits, latency)

    @classmethod
    def _of_limits(
        cls, ranks: int, ends: Sequence[tuple[Rank, Rank]], limits: list[Limit], latency: Sequence[float]
    ) -> Network:
        by_link = transposed((links for _, _, links in limits), len(ends))

        def implied(number: int) -> bool:
            """Return True if all its links also draw from another limit that is no faster."""
            _, rate, links = limits[number]
            for other in by_link[min(links, key=lambda i: len(by_link[i]))]:
                _, other_rate, others = limits[other]
                less = other_rate < rate or len(links) < len(others) or other < number
                if other != number and other_rate <= rate and links <= others and less:
                    return True
            return False

        kept = [limit for number, limit in enumerate(limits) if not implied(number)]
        users = transposed((links for _, _, links in kept), len(ends))
        return cls(
            ranks=ranks,
            src=np.array([src for src, _ in ends], dtype=np.int64),
            dst=np.array([dst for _, dst in ends], dtype=np.int64),
            uses_start=np.cumsum([0, *map(len, users)], dtype=np.int64),
            uses=np.array([r for used in users for r in used], dtype=np.int64),
            rates=tuple(rate for _, rate, _ in kept),
            limits=tuple(limit for limit, _, _ in kept),
            latency=np.array(latency, dtype=np.float64),
        )

    @cached_property
    def rate(self) -> Floats:
        """Bytes per second of each resource."""
        return np.array([float(rate) for rate in self.rates])

    @cached_property
    def link_rate(self) -> Floats:
        """Bytes per second of each link alone."""
        return np.minimum.reduceat(self.rate[self.uses], self.uses_start[:-1])

    @cached_property
    def slice_seconds(self) -> Floats:
        """Seconds of a slice of 2 MB over each link alone."""
        return self.latency + 2**21 / self.link_rate

    @cached_property
    def link_of_use(self) -> Ints:
        """The link of each entry of ``uses``."""
        return np.repeat(np.arange(len(self.src)), np.diff(self.uses_start))

    @cached_property
    def by_pair(self) -> tuple[Ints, Ints, Ints]:
        """The links in the order of their pairs, the pair of each, and where those of a pair begin."""
        pair = self.src * self.ranks + self.dst
        order = np.argsort(pair, kind="stable")
        return order, pair[order], np.flatnonzero(np.diff(pair[order], prepend=-1))

    def cheapest(self, by_link: Floats) -> tuple[Floats, Ints]:
        """The least price between every two ranks (infinite: no link), and the first link with it (or -1)."""
        order, pair, start = self.by_pair
        costs, link = np.full(self.ranks**2, np.inf), np.full(self.ranks**2, -1)
        ordered = by_link[order]
        costs[pair[start]] = np.minimum.reduceat(ordered, start)
        cheapest = np.flatnonzero(ordered == costs[pair])[::-1]  # the last to be written stays
        link[pair[cheapest]] = order[cheapest]
        return costs.reshape(self.ranks, -1), link.reshape(self.ranks, -1)

    def reversed(self) -> Network:
        """Return the network with every link turned around: on it a reduction is a copy."""
        return replace(self, src=self.dst, dst=self.src)

    def link_prices(self, prices: Floats) -> Floats:
        """The price of a byte over each link: the sum of those of its resources."""
        return np.add.reduceat(prices[self.uses], self.uses_start[:-1])

    def loads_of(self, links: Ints, crossings: Floats) -> Floats:
        """Bytes on each resource when ``crossings[i]`` bytes cross link ``links[i]`` and none the others."""
        first, many = self.uses_start[links], self.uses_start[links + 1] - self.uses_start[links]
        end = np.cumsum(many)
        places = np.arange(end[-1] if len(end) else 0) + np.repeat(first - end + many, many)
        return np.bincount(self.uses[places], np.repeat(crossings, many), len(self.rates)).astype(np.float64)


Limit = tuple[tuple[str, int], Fraction, frozenset[int]]  # what it is, its rate, the links that draw from it
