"""The classes of links that measurements are of: those of one kind and one rate.

In: a ``Topology``. Out: ``LinkClass`` values, and the one that the user names (``nvlink``, ``net@400Gbps``).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction

from hetesynth.errors import HetesynthError
from hetesynth.model.diagnostics import visible
from hetesynth.model.topology import Topology


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
        return f"{self.kind}@{float(self.rate / 10**9):g}GB/s"


def link_classes(topology: Topology) -> tuple[LinkClass, ...]:
    """Return all classes, those with the most links first."""
    members: dict[tuple[str, Fraction], list[int]] = defaultdict(list)
    for number, link in enumerate(topology.links):
        members[link.kind, link.bandwidth * link.lanes].append(number)
    classes = []
    for (kind, rate), links in members.items():
        alphas = Counter(topology.links[i].latency for i in links)
        alpha = min(alphas, key=lambda a: (-alphas[a], a))
        limiting: set[int] = set()  # the first wire of each way that has the rate of the link
        through: dict[str, set[int]] = defaultdict(set)  # these wires by GPU, or by server where links leave it
        for number in links:
            link = topology.links[number]
            wires = ((w, topology.wires[w]) for w in link.wires)
            first = next(
                w for w, wire in wires if wire.bandwidth is not None and wire.bandwidth * wire.lanes == rate
            )
            src, dst = topology.vertices[link.src], topology.vertices[link.dst]
            through[src.server if src.server != dst.server else src.name].add(first)
            limiting.add(first)
        width = min(len(wires) for wires in through.values())
        classes.append(LinkClass(kind, rate, alpha, tuple(links), tuple(sorted(limiting)), width))
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
