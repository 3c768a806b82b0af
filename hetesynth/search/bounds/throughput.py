"""How fast bytes can move at best: exact cuts of the physical graph (the optimum of ForestColl, section 4), and
prices.

In: a topology and a collective's name. Out: lower bounds on completion time, affine in the size of the largest
buffer of a rank, each with its witness. For allgather the largest cut bound is the throughput optimum itself where
only wires limit: for every set of vertices, what must leave it against what can leave it, by maximum flows and
Newton's method on the ratio, in integers. Where groups are stated, prices of resources (``packing.py``) say more.
Reductions are copies on the reversed graph.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm

from hetesynth.model.bound import (
    PartCrossings,
    ResourcePrices,
    SlowestPath,
    Supply,
    TimeBound,
    VertexCut,
    tightest,
)
from hetesynth.model.collective import ROOTED, CollectiveName
from hetesynth.model.pods import rate_of
from hetesynth.model.topology import Rank, Topology
from hetesynth.policy import DEFAULT, Policy
from hetesynth.search.bounds.delays import SPANNING, Delayed, Distances, into_parts, worth
from hetesynth.search.bounds.flow import maximum_flow
from hetesynth.search.bounds.packing import early_prices, price_bounds
from hetesynth.search.bounds.regions import components
from hetesynth.search.copy_problem import grouped

EARLY_SIZES = (2**16, 2**20)
"""Bytes for which prices of a broadcast are sought that count when a link can first be busy."""

Ratio = tuple[Fraction, frozenset[int]]  # bytes per second for each unit of supply, and the side of the cut


@dataclass(frozen=True)
class WireGraph:
    """The wires that links use, with integer capacities; ``scale`` units are one byte per second."""

    vertices: int
    src: tuple[int, ...]
    dst: tuple[int, ...]
    capacity: tuple[int | None, ...]
    scale: Fraction

    @classmethod
    def of(cls, topology: Topology) -> WireGraph:
        """Return the graph of the wires of ``topology`` that links use, with whole-number rates."""
        used = sorted({w for link in topology.links for w in link.wires})
        rates = [rate_of(topology.wires[w]) for w in used]
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
        )

    def smallest_ratio(self, supply: Mapping[Rank, int], sink: Rank, best: Ratio | None) -> Ratio | None:
        """Return ``best`` or, if smaller, the least bandwidth out of a side without ``sink`` over its supply."""
        # more than all wires together can carry shows any cut of limited wires
        most = Fraction(sum(c for c in self.capacity if c is not None) + 1)
        while True:
            side = self._violated(supply, sink, most if best is None else best[0] * self.scale)
            smaller = self._ratio(side, supply) if side else None
            if smaller is None or (best is not None and smaller[0] >= best[0]):
                return best
            best = smaller

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
        edges = self.edges(q, needed)
        for rank, units in supply.items():
            edges[self.vertices, rank] += p * units
        flow, side = _flow(edges, self.vertices, sink)
        return frozenset() if flow >= needed else side

    def edges(self, factor: int, unlimited: int) -> dict[tuple[int, int], int]:
        """``factor`` times what can go from vertex to vertex, wires without a limit being ``unlimited``."""
        merged: dict[tuple[int, int], int] = defaultdict(int)
        for s, d, c in zip(self.src, self.dst, self.capacity, strict=True):
            merged[s, d] += unlimited if c is None else c * factor
        return merged


def _flow(edges: Mapping[tuple[int, int], int], source: int, sink: int) -> tuple[int, frozenset[int]]:
    """The maximum flow, and the source side of a minimum cut without the source."""
    flow, side = maximum_flow(source + 1, [(s, d, c) for (s, d), c in sorted(edges.items())], source, sink)
    return flow, frozenset(side) - {source}


def narrowest(
    topology: Topology, part: Iterable[Rank], graph: WireGraph
) -> tuple[Fraction | None, frozenset[int]]:
    """Return the least bandwidth, in bytes a second, of wires that separate the other ranks from ``part`` (None:
    no limit), and the side of the others."""
    inside = set(part)
    total = sum(c for c in graph.capacity if c is not None) + 1
    merged = graph.edges(1, total)
    source, sink = graph.vertices + 1, graph.vertices
    for r in range(topology.ranks):
        merged[(r, sink) if r in inside else (source, r)] = total
    flow, side = _flow(merged, source, sink)
    return None if flow >= total else Fraction(flow) / graph.scale, side


def time_bounds(
    topology: Topology, name: CollectiveName, root: Rank | None = None, policy: Policy = DEFAULT
) -> tuple[TimeBound, ...]:
    """Every bound for the collective ``name``, the one that says most about large buffers first; those that do not
    hold for every algorithm come last. Raises ValueError when a rooted collective has no root."""
    if (name in ROOTED) != (root is not None):
        raise ValueError(f"{name}: root {root} does not fit")
    far = Distances(topology)
    bounds = cut_bounds(topology, name, root, far)
    bounds += price_bounds(topology, name, root, policy)
    # the farthest pair that must hear of each other, by sums of link latencies, and the bytes that go there
    n = topology.ranks
    outward, inward = name in ("broadcast", "scatter"), name in ("gather", "reduce")
    sources, targets = ([root or 0] if one else range(n) for one in (outward, inward))
    u, v = max(
        ((u, v) for u in sources for v in targets if u != v), key=lambda p: int(far.reach[p]), default=(0, 0)
    )
    latency = Fraction(int(far.reach[u, v]), far.unit)
    share = Fraction(1) if name in ("allreduce", "broadcast", "reduce") else Fraction(1, n)
    entering, side = narrowest(topology, (v,), WireGraph.of(topology))
    if entering is None:  # wires without a limit lead there: only latency counts
        share, entering = Fraction(0), Fraction(1)
    proof = f"from {topology.vertices[u].name} to {topology.vertices[v].name} takes {float(latency) * 1e6:g} us"
    bounds.append(
        TimeBound("latency", latency, share / entering, proof, SlowestPath(u, v, share, tuple(sorted(side))))
    )
    bounds += _delayed(topology, name, root, policy, far, (u, v), bounds)
    return tuple(sorted(bounds, key=lambda b: (b.scope != "all", -b.seconds_per_byte, -b.latency, b.kind)))


def _delayed(
    topology: Topology,
    name: CollectiveName,
    root: Rank | None,
    policy: Policy,
    far: Distances,
    farthest: tuple[Rank, Rank],
    others: Sequence[TimeBound],
) -> list[TimeBound]:
    """Return the bounds with latencies along the way, if they say more than ``others`` for some size."""
    if not far.judged:
        return []
    turned = name in ("reducescatter", "reduce", "scatter")
    bounds = []
    for backwards in (False, True) if name == "allreduce" else (turned,):
        seen = Delayed(topology, name, root, far, backwards=backwards)
        for bound in others:
            match bound.witness:
                case VertexCut(side, _, _, groups) if bound.backwards == backwards:
                    bounds += seen.cut(side, groups, bound.proof)
                case ResourcePrices() as prices if name in SPANNING:
                    bounds += seen.trees(prices, bound.proof)
        # what enters the last rank, or leaves the first
        graph = topology.reversed() if backwards else topology
        last = farthest[0 if backwards else 1]
        width, others_side = narrowest(graph, (last,), WireGraph.of(graph))
        if width is not None:
            bandwidth, stated = bandwidth_out_of(graph, others_side)
            proof = f"{topology.vertices[last].name} {'sends' if backwards else 'takes in'} no more than "
            proof += f"{float(bandwidth) / 1e9:g} GB/s"
            bounds += seen.cut(others_side, stated, proof, 6)
        if name in ("broadcast", "reduce") and root is not None and topology.ranks <= 64:
            for size in EARLY_SIZES:
                horizon = float(tightest([*others, *bounds], size).seconds(size))
                early = early_prices(topology, name, root, policy, seen.first(root), horizon)
                if early is not None:
                    bounds += seen.trees(early, "no set of trees is lighter on what can be busy early")
    return worth(bounds, others)


def cut_bounds(topology: Topology, name: CollectiveName, root: Rank | None, far: Distances) -> list[TimeBound]:
    """The bounds by cuts and by volume, which are quicker to compute than prices."""
    n, graph = topology.ranks, WireGraph.of(topology)
    backwards = topology.reversed()
    everyone = dict.fromkeys(range(n), 1)
    copying, summing = (topology, graph, False), (backwards, WireGraph.of(backwards), True)
    if name == "alltoall":  # from every rank inside a server (or a rank alone) to every one outside, and back
        servers = _servers(topology)
        parts = servers if len(servers) > 1 else tuple((r,) for r in range(n))
        rest = [tuple(r for r in range(n) if r not in part) for part in parts]
        bounds = []
        for width, side in (narrowest(topology, part, graph) for part in (*parts, *rest)):
            if width is not None:
                outside = Fraction(sum(1 for r in range(n) if r not in side), n)
                bounds.append(_cut_bound(topology, side, everyone, outside, False))
        bounds = [max(bounds, key=lambda b: b.seconds_per_byte)] if bounds else []
    elif name == "allreduce":  # whatever is on one side, a sum of it must reach the other
        bounds = [b for way in (copying, summing) for b in _cuts(way, {0: 1}, Fraction(1), range(1, n))]
    else:
        one = name in ("broadcast", "reduce")
        supply = {root or 0: 1} if one else everyone
        sinks = [r for r in range(n) if (r == root) == (name in ("gather", "scatter"))]
        way = copying if name in ("allgather", "gather", "broadcast") else summing
        bounds = _cuts(way, supply, Fraction(1) if one else Fraction(1, n), sinks)
    if name not in ROOTED:
        bounds += _by_volume(topology, name, graph, far)
    return bounds


Way = tuple[Topology, WireGraph, bool]  # the last: whether it is turned around


def _cuts(way: Way, supply: Mapping[Rank, int], unit: Fraction, sinks: Sequence[Rank]) -> list[TimeBound]:
    """Return the best bound, if any, by the smallest cut ratio over all sinks and by cuts around servers, with
    stated groups counted where they bind."""
    topology, graph, backwards = way
    hardest = sinks
    if len(sinks) > 128:  # of very many those that least bandwidth leads to, which leaves the bound valid
        entering = dict.fromkeys(sinks, Fraction(0))
        for rank, w in sorted({(link.dst, link.wires[-1]) for link in topology.links}):
            if rank in entering:
                entering[rank] += rate_of(topology.wires[w]) or 0
        hardest = sorted(sinks, key=lambda r: (entering[r], r))[:128]
    worst: Ratio | None = None
    for sink in hardest:
        worst = graph.smallest_ratio({r: s for r, s in supply.items() if r != sink}, sink, worst)
    if worst is None:
        return []
    sides, servers = [worst[1]], _servers(topology)
    if topology.groups and len(servers) > 1:
        cuts = (narrowest(topology, part, graph) for part in servers)
        sides += [side for width, side in cuts if width is not None]
    bounds = [
        _cut_bound(topology, side, supply, unit, backwards)
        for side in sides
        if not side.issuperset(sinks) and not side.isdisjoint(supply)
    ]
    return [max(bounds, key=lambda b: b.seconds_per_byte)]


def _cut_bound(
    topology: Topology, side: frozenset[int], supply: Mapping[Rank, int], unit: Fraction, backwards: bool
) -> TimeBound:
    share = unit * sum(units for rank, units in supply.items() if rank in side)
    bandwidth, groups = bandwidth_out_of(topology, side)
    leaving = {w for w, wire in enumerate(topology.wires) if wire.src in side and wire.dst not in side}
    crossing = (link.latency for link in topology.links if not leaving.isdisjoint(link.wires))
    latency = min(crossing, default=Fraction(0))
    inside = sum(1 for r in range(topology.ranks) if r in side)
    verb = "enter" if backwards else "leave"
    amount = "all" if share == 1 else f"{share}" if share < 1 else f"{share} times"
    amount += " the buffer" if share > 1 else " of the buffer"
    speed = f"{float(bandwidth) / 1e9:g} GB/s"
    proof = f"{amount} must {verb} {inside} of {topology.ranks} GPUs, at no more than {speed}"
    stated = tuple(sorted(groups))
    witness = VertexCut(tuple(sorted(side)), share, bandwidth, stated)
    return TimeBound("cut", latency, share / bandwidth, proof, witness, backwards)


def bandwidth_out_of(topology: Topology, side: frozenset[int]) -> tuple[Fraction, frozenset[int]]:
    """Bytes per second that can leave ``side``, and the stated groups counted in place of their links' wires."""
    crossing = {w for w, wire in enumerate(topology.wires) if wire.src in side and wire.dst not in side}
    users: dict[int, set[int]] = defaultdict(set)
    for i, link in enumerate(topology.links):
        for w in link.wires:
            if w in crossing:
                users[w].add(i)
    crossing = {w for w in crossing if users[w]}
    counted: set[int] = set()
    total = Fraction(0)
    for g, group in sorted(
        enumerate(topology.groups), key=lambda item: (item[1].bandwidth * item[1].lanes, item[0])
    ):
        members = set(group.links)
        covered = {w for w in crossing if users[w] <= members}
        rates = [rate_of(topology.wires[w]) for w in covered]
        if covered and (None in rates or sum(r for r in rates if r is not None) > group.bandwidth * group.lanes):
            crossing -= covered
            counted.add(g)
            total += group.bandwidth * group.lanes
    for w in sorted(crossing):
        width = rate_of(topology.wires[w])
        if width is None:
            raise ValueError("an unlimited wire crosses the cut")
        total += width
    return total, frozenset(counted)


def _servers(topology: Topology) -> tuple[tuple[Rank, ...], ...]:
    return tuple(map(tuple, grouped(topology.servers).values()))


def _by_volume(topology: Topology, name: CollectiveName, graph: WireGraph, far: Distances) -> list[TimeBound]:
    """Return the bounds by what all parts together must take in against what they can: each byte enters p - 1
    parts (allreduce: twice). Parts are GPUs, servers, and GPUs joined by links of one of the 4 highest rates."""
    n = topology.ranks
    joined = [((link.src, link.dst), link.bandwidth * link.lanes) for link in topology.links]
    partitions = [tuple((r,) for r in range(n)), _servers(topology)]
    tiers = [
        tuple(components(n, (ends for ends, wide in joined if wide >= least)))
        for least in sorted({wide for _, wide in joined}, reverse=True)[:4]
    ]
    partitions += [parts for parts in dict.fromkeys(tiers) if len(parts) < n]
    bounds = []
    for parts in partitions:
        if not 1 < len(parts) <= 256:  # each part takes a maximum flow
            continue
        narrow = [narrowest(topology, part, graph) for part in parts]
        widths = [width for width, _ in narrow if width is not None]
        if len(widths) < len(parts):
            continue
        bandwidth = sum(widths, Fraction(0))
        share = Fraction((len(parts) - 1) * (2 if name == "allreduce" else 1))
        if name == "alltoall":  # a block for every pair of ranks in different parts, each crossing once
            share = Fraction(n**2 - sum(len(p) ** 2 for p in parts), n)
        part_of = {r: p for p, part in enumerate(parts) for r in part}
        crossing = (x.latency for x in topology.links if part_of[x.src] != part_of[x.dst])
        latency = min(crossing, default=Fraction(0))
        proof = f"{len(parts)} parts take in {float(share):g} buffers at {float(bandwidth) / 1e9:g} GB/s together"
        witness = PartCrossings(parts, tuple(tuple(sorted(side)) for _, side in narrow), share)
        supply: Supply = ()
        if name == "allreduce" and far.judged:
            witness, supply = into_parts(topology, far, witness)
            latency = supply[0][0]
            proof += f", from {float(latency) * 1e6:.4g} us on"
        bounds.append(TimeBound("volume", latency, share / bandwidth, proof, witness, supply=supply))
    return bounds
