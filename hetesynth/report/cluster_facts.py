"""What an operator asks of a topology: where each rank is, which links there are, what GPUs have to share."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from hetesynth.model.rank_places import RankPlace, rank_places
from hetesynth.model.topology import Link, Rank, Topology, Vertex

EXAMPLES = 4  # links that a class names
Rate = Fraction | None
"""Bytes per second; None: no limit."""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """A server: its GPUs, and the rates of its NICs towards the network, one for each (None: not joined)."""

    name: str
    host: str
    gpus: tuple[RankPlace, ...]
    nics: tuple[Rate, ...]


@dataclass(frozen=True, slots=True)
class LinkClass:
    """A class of links that are alike. ``rate``: bytes per second of all lanes; ``latency``: seconds."""

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
    wires of this side carry together.
    """

    name: str
    kind: str
    rate: Fraction
    sharers: int
    offered: Rate


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """All facts of a cluster, in the order of the topology. ``capable``: switches that do more than forward."""

    servers: tuple[ServerFacts, ...]
    links: tuple[LinkClass, ...]
    bottlenecks: tuple[Bottleneck, ...]
    capable: tuple[Vertex, ...]


def cluster_facts(topology: Topology) -> ClusterFacts:
    """Return the facts of ``topology``."""
    capable = tuple(vertex for vertex in topology.vertices if vertex.capabilities)
    links = tuple(_link_classes(topology))
    return ClusterFacts(tuple(_servers(topology)), links, tuple(_bottlenecks(topology)), capable)


def _servers(topology: Topology) -> Iterator[ServerFacts]:
    gpus: dict[str, list[RankPlace]] = defaultdict(list)
    for place in rank_places(topology):
        gpus[place.server].append(place)
    rates: dict[int, Fraction] = defaultdict(Fraction)  # of a NIC towards what is not of its server
    for wire in topology.wires:
        src, dst = topology.vertices[wire.src], topology.vertices[wire.dst]
        if src.kind == "nic" and (dst.server != src.server or not dst.server) and wire.bandwidth is not None:
            rates[wire.src] += wire.bandwidth * wire.lanes
    nics: dict[str, list[Rate]] = defaultdict(list)
    for i, vertex in enumerate(topology.vertices):
        if vertex.kind == "nic":
            nics[vertex.server].append(rates.get(i))
    for server, places in gpus.items():
        yield ServerFacts(server, places[0].host, tuple(places), tuple(nics[server]))


def _link_classes(topology: Topology) -> Iterator[LinkClass]:
    """Yield the links by kind, rate, lanes, latency and place (in a server or not), in order of appearance."""
    servers = topology.servers
    alike: dict[tuple[str, bool, int, int, int], list[Link]] = defaultdict(list)
    for link in topology.links:  # by identity: very many links share few values
        inside = servers[link.src] == servers[link.dst]
        alike[link.kind, inside, id(link.bandwidth), link.lanes, id(link.latency)].append(link)
    classes: dict[tuple[str, bool, Fraction, int, Fraction], list[Link]] = defaultdict(list)
    for (_, inside, *_), links in alike.items():
        one = links[0]
        classes[one.kind, inside, one.bandwidth * one.lanes, one.lanes, one.latency] += links
    for key, links in classes.items():
        yield LinkClass(*key, len(links), tuple((link.src, link.dst) for link in links[:EXAMPLES]))


# -- what is shared


def _bottlenecks(topology: Topology) -> Iterator[Bottleneck]:
    """Yield the wires and groups that bind; the ports of a GPU alone are its own rate, not shared."""
    rates = [None if w.bandwidth is None else w.bandwidth * w.lanes for w in topology.wires]
    limited = sorted((rate, w) for w, rate in enumerate(rates) if rate is not None)
    place = {w: k for k, (_, w) in enumerate(limited)}  # the slowest first: comparing fractions is slow
    free = len(limited)  # stands for a way without a wire that limits

    def total(places: set[int]) -> Rate:
        """Return the bytes per second of the wires at ``places`` together; None: no limit."""
        return None if free in places else sum((limited[k][0] for k in places), Fraction(0))

    # Of every wire between two parts that forward: who sends over it, and the slowest wires before and behind.
    senders, receivers, before, behind = (defaultdict[int, set[int]](set) for _ in range(4))
    for link in topology.links:
        for wires, ends, into, end in (
            (link.wires, senders, before, link.src),
            (link.wires[::-1], receivers, behind, link.dst),
        ):
            tight = free
            for k, w in enumerate(wires):
                if 0 < k < len(wires) - 1:
                    ends[w].add(end)
                    into[w].add(tight)
                tight = min(tight, place.get(w, free))
    for w in sorted(senders.keys() & place.keys()):
        rate, many, few = limited[place[w]][0], len(senders[w]), len(receivers[w])
        offers = total(before[w]), total(behind[w])
        least = min((offer for offer in offers if offer is not None), default=None)
        if min(many, few) > 1 and (least is None or least > rate):
            offered = offers[0] if many < few else offers[1] if few < many else least
            yield Bottleneck(topology.wire_name(w), topology.wires[w].kind, rate, min(many, few), offered)
    for group in topology.groups:
        links = [topology.links[i] for i in group.links]
        rate = group.bandwidth * group.lanes
        sharers = min(len({link.src for link in links}), len({link.dst for link in links}))
        offered = total({min(place.get(w, free) for w in link.wires) for link in links})
        if len(links) > 1 and (offered is None or offered > rate):
            yield Bottleneck(group.name, group.kind, rate, sharers, offered)
