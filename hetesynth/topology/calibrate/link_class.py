"""The classes of links that measurements are of: those of one kind and one rate.

In: a ``Topology``. Out: ``LinkClass`` values, and the one that the user names (``nvlink``, ``net@400Gbps``).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction

from hetesynth.errors import HetesynthError
from hetesynth.model.diagnostics import visible
from hetesynth.model.topology import Link, Topology

_GIGA = 10**9


@dataclass(frozen=True, slots=True)
class LinkClass:
    """Links of one ``kind`` and ``rate`` (bytes per second, all lanes).

    ``alpha``: the latency that most of them have. ``links``: their numbers, ``wires``: those that limit them.
    ``width``: how many links' rates a GPU drives at once in a collective; where the links leave their servers, its
    server.
    """

    kind: str
    rate: Fraction
    alpha: Fraction
    links: tuple[int, ...]
    wires: tuple[int, ...]
    width: int

    @property
    def title(self) -> str:
        """``nvlink@450GB/s``: what ``--class`` takes."""
        return f"{self.kind}@{float(self.rate / _GIGA):g}GB/s"


def link_classes(topology: Topology) -> tuple[LinkClass, ...]:
    """All classes, those with the most links first."""
    members: dict[tuple[str, Fraction], list[int]] = defaultdict(list)
    for number, link in enumerate(topology.links):
        members[link.kind, link.bandwidth * link.lanes].append(number)
    classes = [_class(topology, kind, rate, tuple(links)) for (kind, rate), links in members.items()]
    return tuple(sorted(classes, key=lambda c: (-len(c.links), c.title)))


def named_class(topology: Topology, name: str | None) -> LinkClass:
    """The class called ``name``; the only one where there is one. HetesynthError HS846 otherwise."""
    classes = link_classes(topology)
    shown = ", ".join(c.title for c in classes[:12])
    if name is None:
        if len(classes) == 1:
            return classes[0]
        raise HetesynthError(
            f"{topology.name} has {len(classes)} classes of links",
            code="HS846",
            help=f"name one with --class: {shown}",
        )
    fitting = [c for c in classes if name in (c.kind, c.title)]
    if len(fitting) == 1:
        return fitting[0]
    problem = "no class" if not fitting else f"{len(fitting)} classes"
    raise HetesynthError(
        f"{topology.name} has {problem} of links {visible(name)[:60]}",
        code="HS846",
        help=f"--class takes: {shown}",
    )


def _class(topology: Topology, kind: str, rate: Fraction, links: tuple[int, ...]) -> LinkClass:
    alphas = Counter(topology.links[i].latency for i in links)
    alpha = min(alphas, key=lambda a: (-alphas[a], a))
    limiting = {i: _limiting(topology, topology.links[i]) for i in links}
    return LinkClass(kind, rate, alpha, links, tuple(sorted({*limiting.values()})), _width(topology, limiting))


def _limiting(topology: Topology, link: Link) -> int:
    """The first wire on the way that has the rate of ``link``."""
    least = link.bandwidth * link.lanes
    for number in link.wires:
        wire = topology.wires[number]
        if wire.bandwidth is not None and wire.bandwidth * wire.lanes == least:
            return number
    raise ValueError(f"no wire of link {link.src}->{link.dst} has its rate")


def _width(topology: Topology, limiting: dict[int, int]) -> int:
    """The fewest wires that a GPU sends through; links that leave a server count for the server together."""
    through: dict[str, set[int]] = defaultdict(set)
    for number, wire in limiting.items():
        link = topology.links[number]
        src, dst = topology.vertices[link.src], topology.vertices[link.dst]
        through[src.server if src.server != dst.server else src.name].add(wire)
    return min(len(wires) for wires in through.values())
