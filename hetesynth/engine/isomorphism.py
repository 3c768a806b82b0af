"""Whether two clusters are the same but for names: a schedule of one is then one of the other, with other ranks.

In: two topologies. Out: the vertex of the second for each of the first, or None. Colours are refined by the wires
at each vertex (Weisfeiler and Leman 1968); where several have one colour a pair of them is told apart and refined
again, without going back (McKay 1981 goes back). Whatever comes of it is checked wire by wire, so a mapping is
right; that there is none is not proved by None.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable

from hetesynth.model.topology import Topology

Colours = list[int]
Wiring = list[list[tuple[int, Hashable]]]


def isomorphism(one: Topology, other: Topology) -> tuple[int, ...] | None:
    """The vertex of ``other`` for each vertex of ``one``."""
    sizes = ((len(t.vertices), t.ranks, len(t.wires), len(t.links), t.chunk_bytes) for t in (one, other))
    if len(set(sizes)) > 1 or one.groups or other.groups:
        return None
    wirings = [_wiring(one), _wiring(other)]
    both = _refined(wirings, [_first_colours(one), _first_colours(other)])
    while both is not None:
        cells = [_cells(colours) for colours in both]
        several = [colour for colour, members in sorted(cells[0].items()) if len(members) > 1]
        if not several:
            mapping = tuple(cells[1][colour][0] for colour in both[0])
            return mapping if _holds(one, other, mapping) else None
        fresh = len(one.vertices) + 1
        for colours, members in zip(both, cells, strict=True):
            colours[members[several[0]][0]] = fresh
        both = _refined(wirings, [list(colours) for colours in both])
    return None


def _wiring(topology: Topology) -> Wiring:
    """The wires at each vertex: the other end and what the wire is."""
    at: Wiring = [[] for _ in topology.vertices]
    for wire in topology.wires:
        what = (wire.kind, wire.bandwidth, wire.lanes, wire.latency)
        at[wire.src].append((wire.dst, ("out", what)))
        at[wire.dst].append((wire.src, ("in", what)))
    return at


def _first_colours(topology: Topology) -> list[Hashable]:
    rates = topology.throughputs
    colours: list[Hashable] = [
        (vertex.kind, vertex.model, rates[v] if v < topology.ranks else None)
        for v, vertex in enumerate(topology.vertices)
    ]
    return colours


def _refined(wirings: list[Wiring], first: list[list[Hashable]] | list[Colours]) -> list[Colours] | None:
    """Colours that tell vertices apart by their wires, the same for both; None where the clusters differ."""
    both = _numbered([list(colours) for colours in first])
    while True:
        seen: list[list[Hashable]] = [
            [
                (colours[v], frozenset(Counter((colours[end], what) for end, what in wires).items()))
                for v, wires in enumerate(wiring)
            ]
            for wiring, colours in zip(wirings, both, strict=True)
        ]
        finer = _numbered(seen)
        if Counter(finer[0]) != Counter(finer[1]):
            return None
        if len(set(finer[0])) == len(set(both[0])):
            return finer
        both = finer


def _numbered(both: list[list[Hashable]]) -> list[Colours]:
    """A number for each colour, in the order in which the first cluster has them."""
    numbers: dict[Hashable, int] = {}
    return [[numbers.setdefault(colour, len(numbers)) for colour in colours] for colours in both]


def _cells(colours: Colours) -> dict[int, list[int]]:
    members: dict[int, list[int]] = defaultdict(list)
    for v, colour in enumerate(colours):
        members[colour].append(v)
    return members


def _holds(one: Topology, other: Topology, mapping: tuple[int, ...]) -> bool:
    """Whether ``mapping`` takes the wires and links of ``one`` to those of ``other``."""

    def wires(topology: Topology, to: tuple[int, ...]) -> Counter[Hashable]:
        return Counter((to[w.src], to[w.dst], w.kind, w.bandwidth, w.lanes, w.latency) for w in topology.wires)

    def links(topology: Topology, to: tuple[int, ...]) -> Counter[Hashable]:
        return Counter(
            (to[x.src], to[x.dst], x.kind, tuple(to[topology.wires[w].dst] for w in x.wires))
            for x in topology.links
        )

    same = tuple(range(len(other.vertices)))
    return wires(one, mapping) == wires(other, same) and links(one, mapping) == links(other, same)
