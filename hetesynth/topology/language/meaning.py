"""What a topology says, whatever its parts are called: two texts with the same meaning are the same cluster.

In: a ``Topology``. Out: a value that is equal for equal clusters: the links with their rates, what they share, the
GPUs by rank and server. Knows nothing of texts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction

from hetesynth.model.topology import Topology

_Link = tuple[int, int, str, Fraction, int, Fraction]
_Resource = tuple[Fraction, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Meaning:
    """``gpus``: server, model and throughputs of each rank; ``shared``: rate and links of each shared capacity."""

    gpus: tuple[tuple[int, str, tuple[Fraction | None, Fraction | None]], ...]
    links: tuple[_Link, ...]
    shared: frozenset[tuple[_Resource, int]]
    chunk_bytes: int | None
    measured: tuple[str, ...]


def meaning(topology: Topology) -> Meaning:
    """The meaning of ``topology``; of several links between two GPUs the order does not matter."""
    number = {server: i for i, server in enumerate(dict.fromkeys(topology.servers))}
    plain = [(x.src, x.dst, x.kind, x.bandwidth, x.lanes, x.latency) for x in topology.links]
    order = sorted(range(len(plain)), key=lambda i: plain[i])
    place = {link: i for i, link in enumerate(order)}
    crossing: dict[int, list[int]] = defaultdict(list)
    for index, link in enumerate(topology.links):
        for wire in link.wires:
            crossing[wire].append(place[index])
    shared: Counter[_Resource] = Counter()
    for number_, links in crossing.items():
        wire_ = topology.wires[number_]
        if wire_.bandwidth is not None and len(links) > 1:
            shared[wire_.bandwidth * wire_.lanes, tuple(sorted(links))] += 1
    for group in topology.groups:
        shared[group.bandwidth * group.lanes, tuple(sorted(place[i] for i in group.links))] += 1
    return Meaning(
        tuple(
            (number[server], model, each)
            for server, model, each in zip(topology.servers, topology.models, topology.throughputs, strict=True)
        ),
        tuple(plain[i] for i in order),
        frozenset(shared.items()),
        topology.chunk_bytes,
        topology.measured,
    )
