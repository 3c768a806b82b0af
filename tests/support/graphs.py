"""Small clusters as problems, built by hand: no frontend, no chunking.

``Graph`` collects vertices, segments and arcs; ``problem(graph, name)`` puts a collective on them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hetesynth.model.collective import ROOTED, CollectiveName
from hetesynth.model.problem import Arc, Problem, Resource, Segment
from hetesynth.search.collectives import collective


@dataclass
class Graph:
    """A graph under construction; ranks are 0..ranks-1, further vertices forward."""

    ranks: int
    vertices: int = 0
    segments: list[Segment] = field(default_factory=list)
    arcs: list[Arc] = field(default_factory=list)
    groups: list[Resource] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.vertices = max(self.vertices, self.ranks)

    def vertex(self) -> int:
        """A new forwarding vertex."""
        self.vertices += 1
        return self.vertices - 1

    def segment(self, src: int, dst: int, capacity: int | None) -> int:
        """A new wire; its index."""
        self.segments.append(Segment(src, dst, capacity, f"wire{len(self.segments)}:{src}->{dst}"))
        return len(self.segments) - 1

    def link(self, src: int, dst: int, capacity: int) -> None:
        """A wire of its own from one rank to another."""
        self.arcs.append(Arc(src, dst, capacity, (self.segment(src, dst, capacity),)))

    def both(self, a: int, b: int, capacity: int = 1) -> None:
        """Links in both directions."""
        self.link(a, b, capacity)
        self.link(b, a, capacity)

    def over(self, src: int, dst: int, path: tuple[int, ...]) -> None:
        """A link over the wires ``path``, as wide as the narrowest."""
        widths = [c for c in (self.segments[i].capacity for i in path) if c is not None]
        self.arcs.append(Arc(src, dst, min(widths), path))


def problem(
    graph: Graph, name: CollectiveName, chunks: int = 1, root: int | None = None, *, exclusive: bool = False
) -> Problem:
    """``name`` on ``graph``."""
    wanted = collective(name, graph.ranks, chunks, (root or 0) if name in ROOTED else None)
    return Problem(
        graph.ranks,
        graph.vertices,
        tuple(graph.segments),
        tuple(graph.arcs),
        tuple(graph.groups),
        wanted,
        exclusive,
    )


def ring(n: int, capacity: int = 1, *, both: bool = True) -> Graph:
    """0 - 1 - ... - (n-1) - 0."""
    graph = Graph(n)
    for r in range(n):
        graph.link(r, (r + 1) % n, capacity)
        if both and n > 2:
            graph.link((r + 1) % n, r, capacity)
    return graph


def line(n: int) -> Graph:
    """0 - 1 - ... - (n-1)."""
    graph = Graph(n)
    for r in range(n - 1):
        graph.both(r, r + 1)
    return graph


def full(n: int) -> Graph:
    """Every pair joined."""
    graph = Graph(n)
    for a in range(n):
        for b in range(n):
            if a != b:
                graph.link(a, b, 1)
    return graph


def star(n: int, port: int = 1) -> Graph:
    """Every rank on one switch, ``port`` chunks a step in each direction."""
    graph = Graph(n)
    _switched(graph, list(range(n)), port)
    return graph


def _switched(graph: Graph, members: list[int], port: int) -> None:
    hub = graph.vertex()
    up = {r: graph.segment(r, hub, port) for r in members}
    down = {r: graph.segment(hub, r, port) for r in members}
    for a in members:
        for b in members:
            if a != b:
                graph.over(a, b, (up[a], down[b]))


DGX1 = [
    (0, 1, 2), (0, 2, 1), (0, 3, 1), (0, 4, 2), (1, 2, 1), (1, 3, 2), (1, 5, 1), (2, 3, 2), (2, 6, 2), (3, 7, 1),
    (4, 5, 2), (4, 6, 1), (4, 7, 1), (5, 6, 1), (5, 7, 2), (6, 7, 2),
]  # fmt: skip


def dgx1() -> Graph:
    """DGX-1V: NVLinks of one or two lanes, six lanes a GPU (SCCL 5.1.1)."""
    graph = Graph(8)
    for a, b, lanes in DGX1:
        graph.both(a, b, lanes)
    return graph


def fig10() -> Graph:
    """HeteCCL Figure 10 by eq. 1: direct 2 x ceil(25/8) = 8, the inner switch 2, the network 1."""
    graph = Graph(6)
    for a, b in ((0, 1), (2, 3), (4, 5)):
        graph.both(a, b, 8)
    _bridge(graph, [2, 3], [4, 5], 2)
    _bridge(graph, [0, 1], [2, 3, 4, 5], 1)
    return graph


def _bridge(graph: Graph, left: list[int], right: list[int], capacity: int) -> None:
    """A shared medium between two sets of ranks, one wire a direction."""
    for sources, targets in ((left, right), (right, left)):
        a, b = graph.vertex(), graph.vertex()
        core = graph.segment(a, b, capacity)
        ins = {r: graph.segment(r, a, None) for r in sources}
        outs = {r: graph.segment(b, r, None) for r in targets}
        for u in sources:
            for v in targets:
                graph.over(u, v, (ins[u], core, outs[v]))


def servers(
    sizes: list[int], nics: int | list[int] = 4, port: int = 9, nic: int | list[int] = 1, *, oneway: bool = False
) -> Graph:
    """Servers with a switch inside and NICs that GPUs share in order; one fabric joins the NICs.

    ``nics`` and ``nic`` (capacity) may be given per server. ``oneway``: the first server only sends.
    """
    graph = Graph(sum(sizes))
    fabric = graph.vertex()
    many = nics if isinstance(nics, list) else [nics] * len(sizes)
    width = nic if isinstance(nic, list) else [nic] * len(sizes)
    out: dict[int, tuple[int, ...]] = {}
    into: dict[int, tuple[int, ...]] = {}
    home: dict[int, int] = {}
    first = 0
    for s, size in enumerate(sizes):
        members = list(range(first, first + size))
        first += size
        if size > 1:
            _switched(graph, members, port)
        count = min(many[s], size)
        cards = []
        for _ in range(count):
            card = graph.vertex()
            cards.append((card, graph.segment(card, fabric, width[s]), graph.segment(fabric, card, width[s])))
        for i, r in enumerate(members):
            card, up, down = cards[i * count // size]
            home[r] = s
            out[r] = (graph.segment(r, card, None), up)
            into[r] = (down, graph.segment(card, r, None))
    for u in range(graph.ranks):
        for v in range(graph.ranks):
            if home[u] != home[v] and not (oneway and home[v] == 0):
                graph.over(u, v, out[u] + into[v])
    return graph
