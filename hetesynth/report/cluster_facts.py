"""What an operator asks of a topology: where each rank is, which links there are, what GPUs have to share."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from hetesynth.model.topology import Link, Rank, Topology, Vertex

EXAMPLES = 4  # links and wires that a class names
UNLIMITED = -1  # stands for a way without a wire that limits


@dataclass(frozen=True, slots=True)
class GpuPlace:
    """Where a rank is: its host, its server and the GPU's number there."""

    rank: Rank
    name: str
    server: str
    host: str
    number: int
    model: str


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """A server: its GPUs, and the rates of its NICs towards the network, one for each."""

    name: str
    host: str
    gpus: tuple[GpuPlace, ...]
    nics: tuple[Fraction | None, ...]


@dataclass(frozen=True, slots=True)
class LinkClass:
    """Links that are alike. ``rate``: bytes per second of all lanes; ``latency``: seconds."""

    kind: str
    inside: bool  # a server
    rate: Fraction
    lanes: int
    latency: Fraction
    count: int
    examples: tuple[tuple[Rank, Rank], ...]


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """A wire or group that several GPUs send over together, to several, and that carries less than its ends do.

    ``sharers``: GPUs on the side with fewer, all senders or all receivers. ``offered``: bytes per second that the
    wires on that side carry together; None: they have no limit.
    """

    name: str
    kind: str
    rate: Fraction
    sharers: int
    offered: Fraction | None


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """All of it, in the order of the topology. ``capable``: switches that do more than forward."""

    servers: tuple[ServerFacts, ...]
    links: tuple[LinkClass, ...]
    bottlenecks: tuple[Bottleneck, ...]
    capable: tuple[Vertex, ...]

    @property
    def gpus(self) -> tuple[GpuPlace, ...]:
        """Every GPU by rank."""
        return tuple(sorted((g for s in self.servers for g in s.gpus), key=lambda g: g.rank))


def cluster_facts(topology: Topology) -> ClusterFacts:
    """The facts of ``topology``."""
    capable = tuple(vertex for vertex in topology.vertices if vertex.capabilities)
    links = tuple(_link_classes(topology))
    return ClusterFacts(tuple(_servers(topology)), links, tuple(bottlenecks(topology)), capable)


def _servers(topology: Topology) -> Iterator[ServerFacts]:
    members: dict[str, list[Rank]] = defaultdict(list)
    for rank in range(topology.ranks):
        members[topology.vertices[rank].server].append(rank)
    rates: dict[int, Fraction] = {}  # of a NIC towards what is not of its server
    for wire in topology.wires:
        src, dst = topology.vertices[wire.src], topology.vertices[wire.dst]
        if src.kind == "nic" and (dst.server != src.server or not dst.server) and wire.bandwidth is not None:
            rates[wire.src] = rates.get(wire.src, Fraction(0)) + wire.bandwidth * wire.lanes
    nics: dict[str, list[Fraction | None]] = defaultdict(list)
    for i, vertex in enumerate(topology.vertices):
        if vertex.kind == "nic":
            nics[vertex.server].append(rates.get(i))
    for server, ranks in members.items():
        gpus = []
        for index, rank in enumerate(ranks):
            vertex = topology.vertices[rank]
            number = re.search(r"[0-9]{1,9}$", vertex.name)  # as in a.gpu3
            place = int(number[0]) if number else index
            gpus.append(GpuPlace(rank, vertex.name, server, vertex.host, place, vertex.model))
        yield ServerFacts(server, gpus[0].host, tuple(gpus), tuple(nics.get(server, ())))


def _link_classes(topology: Topology) -> Iterator[LinkClass]:
    """By kind, rate, lanes, latency and whether inside a server, in order of first appearance."""
    servers = topology.servers
    alike: dict[tuple[str, bool, int, int, int], list[Link]] = defaultdict(list)
    for link in topology.links:  # by identity: very many links share few values
        inside = servers[link.src] == servers[link.dst]
        alike[link.kind, inside, id(link.bandwidth), link.lanes, id(link.latency)].append(link)
    classes: dict[tuple[str, bool, Fraction, int, Fraction], list[Link]] = defaultdict(list)
    for (_, inside, *_), links in alike.items():
        one = links[0]
        classes[one.kind, inside, one.bandwidth * one.lanes, one.lanes, one.latency] += links
    for (kind, inside, rate, lanes, latency), links in classes.items():
        ends = tuple((link.src, link.dst) for link in links[:EXAMPLES])
        yield LinkClass(kind, inside, rate, lanes, latency, len(links), ends)


# -- what is shared


def bottlenecks(topology: Topology) -> Iterator[Bottleneck]:
    """Wires and groups that bind; the ports of a GPU alone are its own rate, not shared."""
    rates = [None if w.bandwidth is None else w.bandwidth * w.lanes for w in topology.wires]
    limiting = [i for i, rate in enumerate(rates) if rate is not None]
    order = sorted(limiting, key=lambda i: (rates[i] or Fraction(0), i))
    place = {w: k for k, w in enumerate(order)}  # comparing fractions is slow
    gpus = topology.ranks
    inner = {i for i in limiting if topology.wires[i].src >= gpus and topology.wires[i].dst >= gpus}

    def total(wires: Iterable[int]) -> Fraction | None:
        """What they carry together; None where one has no limit."""
        carried = [None if w == UNLIMITED else rates[w] for w in wires]
        return None if None in carried else sum((rate for rate in carried if rate is not None), Fraction(0))

    # Of every wire between two parts that forward: who sends over it, and the slowest wires before and behind.
    senders, receivers, before, behind = (defaultdict[int, set[int]](set) for _ in range(4))
    for link in topology.links:
        if len(link.wires) < 3:
            continue  # a GPU's own ports
        for wires, into in ((link.wires, before), (link.wires[::-1], behind)):
            tight = UNLIMITED
            for w in wires:
                if w in inner:
                    into[w].add(tight)
                if w in place and (tight == UNLIMITED or place[w] < place[tight]):
                    tight = w
        for w in link.wires:
            if w in inner:
                senders[w].add(link.src)
                receivers[w].add(link.dst)
    for w in sorted(senders):
        rate, many, few = rates[w], len(senders[w]), len(receivers[w])
        if rate is None or min(many, few) < 2:
            continue
        offers = total(before[w]), total(behind[w])
        least = min((offer for offer in offers if offer is not None), default=None)
        if least is None or least > rate:
            offered = offers[0] if many < few else offers[1] if few < many else least
            yield Bottleneck(topology.wire_name(w), topology.wires[w].kind, rate, min(many, few), offered)
    for group in topology.groups:
        links = [topology.links[i] for i in group.links]
        rate = group.bandwidth * group.lanes
        sharers = min(len({link.src for link in links}), len({link.dst for link in links}))
        slowest = {
            min((w for w in link.wires if w in place), key=place.__getitem__, default=UNLIMITED) for link in links
        }
        offered = total(slowest)
        if len(links) > 1 and (offered is None or offered > rate):
            yield Bottleneck(group.name, group.kind, rate, sharers, offered)
