"""The wires of a cluster as a graph with integer capacities, and the narrowest cuts of it.

In: a topology. Out: minimum cuts, exact: between ranks and other ranks, and in proportion to what must cross.
Stated groups of links are no edges; ``throughput`` counts them where they bind.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm

from hetesynth.model.topology import Rank, Topology, Wire
from hetesynth.policy.bounds import BoundsPolicy
from hetesynth.search.bounds.maxflow import maximum_flow

Ratio = tuple[Fraction, frozenset[int]]  # bytes per second for each unit of supply, and the side of the cut


def rate(wire: Wire) -> Fraction | None:
    """Bytes per second over all lanes; None where the wire never limits."""
    return None if wire.bandwidth is None else wire.bandwidth * wire.lanes


@dataclass(frozen=True)
class WireGraph:
    """The wires that links use, with integer capacities; ``scale`` units are one byte per second."""

    vertices: int
    src: tuple[int, ...]
    dst: tuple[int, ...]
    capacity: tuple[int | None, ...]
    scale: Fraction
    policy: BoundsPolicy

    @classmethod
    def of(cls, topology: Topology, policy: BoundsPolicy) -> WireGraph:
        """Those of the wires of ``topology`` that links use, with whole-number rates."""
        used = sorted({w for link in topology.links for w in link.wires})
        rates = [rate(topology.wires[w]) for w in used]
        limits = [r for r in rates if r is not None]
        multiple = lcm(*(r.denominator for r in limits))
        divisor = gcd(*(int(r * multiple) for r in limits))
        scale = Fraction(multiple, divisor)
        return cls(
            len(topology.vertices),
            tuple(topology.wires[w].src for w in used),
            tuple(topology.wires[w].dst for w in used),
            tuple(None if r is None else int(r * scale) for r in rates),
            scale,
            policy,
        )

    def smallest_ratio(self, supply: Mapping[Rank, int], sink: Rank, best: Ratio | None) -> Ratio | None:
        """The smallest bandwidth out of a side without ``sink`` over the supply inside it, if below ``best``.

        Newton's method: a cut that cannot carry the supply at the ratio so far has a smaller ratio itself.
        """
        if best is None:  # more than all wires together can carry shows any cut of limited wires
            most = Fraction(sum(c for c in self.capacity if c is not None) + 1)
            side = self._violated(supply, sink, most)
            best = self._ratio(side, supply) if side else None
        while best is not None:
            side = self._violated(supply, sink, best[0] * self.scale)
            smaller = self._ratio(side, supply) if side else None
            if smaller is None or smaller[0] >= best[0]:
                return best
            best = smaller
        return best

    def _ratio(self, side: frozenset[int], supply: Mapping[Rank, int]) -> Ratio | None:
        inside = sum(units for rank, units in supply.items() if rank in side)
        leaving = [
            c for s, d, c in zip(self.src, self.dst, self.capacity, strict=True) if s in side and d not in side
        ]
        if not inside or None in leaving:
            return None
        return Fraction(sum(c for c in leaving if c is not None)) / self.scale / inside, side

    def _violated(self, supply: Mapping[Rank, int], sink: Rank, ratio: Fraction) -> frozenset[int]:
        """The source side of a minimum cut when every unit of supply sends ``ratio``; empty when all arrives."""
        p, q = ratio.numerator, ratio.denominator
        needed = p * sum(supply.values())
        edges = [
            (s, d, needed if c is None else c * q)
            for s, d, c in zip(self.src, self.dst, self.capacity, strict=True)
        ]
        edges += [(self.vertices, rank, p * units) for rank, units in supply.items()]
        merged: dict[tuple[int, int], int] = defaultdict(int)
        for s, d, c in edges:
            merged[s, d] += c
        flow, side = _flow(merged, self.vertices, sink, self.policy)
        return frozenset() if flow >= needed else frozenset(v for v in side if v != self.vertices)


def _flow(
    edges: Mapping[tuple[int, int], int], source: int, sink: int, policy: BoundsPolicy
) -> tuple[int, set[int]]:
    """The value of a maximum flow and the source side of a minimum cut; ``source`` is the highest vertex."""
    flow, side = maximum_flow(source + 1, [(s, d, c) for (s, d), c in sorted(edges.items())], source, sink, policy)
    return flow, set(side)


def narrowest(
    topology: Topology, part: Iterable[Rank], graph: WireGraph
) -> tuple[Fraction | None, frozenset[int]]:
    """The least bandwidth of wires that separate the other ranks from ``part``, and the side of the others.

    None: no cut without an unlimited wire does. ``graph``: of ``topology``.
    """
    inside = set(part)
    total = sum(c for c in graph.capacity if c is not None) + 1
    merged: dict[tuple[int, int], int] = defaultdict(int)
    for s, d, c in zip(graph.src, graph.dst, graph.capacity, strict=True):
        merged[s, d] += total if c is None else c
    source, sink = graph.vertices + 1, graph.vertices
    for r in range(topology.ranks):
        merged[(r, sink) if r in inside else (source, r)] = total
    flow, side = _flow(merged, source, sink, graph.policy)
    return None if flow >= total else Fraction(flow) / graph.scale, frozenset(side - {source})
