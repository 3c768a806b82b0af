"""Features of a topology that say what any schedule on it can hope for.

In: a topology and the time bounds of a collective. Out: plain values: diameter in hops and in seconds, inverse
bisection bandwidth, and what the collective costs at least.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, islice
from typing import Any

from hetesynth.engine.time_optimality import Bounds
from hetesynth.model.topology import Rank, Topology
from hetesynth.policy import Policy


def features(
    topology: Topology, bounds: Bounds, policy: Policy
) -> dict[str, Any]:  # fmt: skip
    """The features as JSON values; the bisection is null where wires do not limit it or no link crosses it."""
    from hetesynth.search.bounds.throughput import WireGraph, narrowest

    graph, most = WireGraph.of(topology, policy.bounds), policy.autotune.max_splits
    widths = [narrowest(topology, part, graph)[0] for part in halves(topology, most)]
    narrow = min((w for w in widths if w is not None), default=None)
    per_byte = max(b.seconds_per_byte for b in bounds.bounds)
    return {
        "gpus": topology.ranks,
        "links": len(topology.links),
        "diameter_hops": diameter(topology),
        "diameter_us": float(max(b.latency for b in bounds.bounds)) * 1e6,
        "inverse_bisection_us_per_MB": float(Fraction(10**12) / narrow) if narrow else None,
        "least_us_per_MB": float(per_byte) * 1e12,
    }


def diameter(topology: Topology) -> int:
    """Links on the shortest path between the two ranks that are farthest apart."""
    near: dict[Rank, set[Rank]] = defaultdict(set)
    for link in topology.links:
        near[link.src].add(link.dst)
    most = 0
    for start in range(topology.ranks):
        reached, layer, hops = {start}, {start}, 0
        while layer := {v for u in layer for v in near[u]} - reached:
            reached |= layer
            hops += 1
        most = max(most, hops)
    return most


def halves(topology: Topology, most: int) -> Iterator[tuple[Rank, ...]]:
    """Two halves, as near as servers allow, along servers; inside one server along its numbering. At most ``most``
    splits of each kind."""
    n = topology.ranks
    members: dict[str, list[Rank]] = defaultdict(list)
    for rank in range(n):
        members[topology.vertices[rank].server].append(rank)
    servers = list(members.values())
    if len(servers) == 1:
        for start in range(min(n, most)):
            yield tuple(sorted((start + k) % n for k in range(n // 2)))
        return
    splits = [
        tuple(r for server in side for r in server)
        for k in range(1, len(servers))
        for side in islice(combinations(servers, k), most)
    ]
    nearest = min(abs(n - 2 * len(part)) for part in splits)
    yield from islice((part for part in splits if abs(n - 2 * len(part)) == nearest), most)
