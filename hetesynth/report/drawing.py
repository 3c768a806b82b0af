"""Where everything of a topology is drawn: boxes for servers, places for vertices, curves for wires.

In: a topology. Out: a ``Drawing`` in picture units (about pixels), y downward; the same topology gives the same
drawing. What belongs to no server stands in rows between the servers, or above them where the network has tiers.
Knows nothing of schedules and of colours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from hetesynth.model.topology import Topology
from hetesynth.report.boxes import Box, WireCurve
from hetesynth.report.server_layout import Block, server_block
from hetesynth.report.wire_curves import wire_curves

GAP = 16.0
LETTER, LINE = 5.6, 13.0  # of the captions
BAR = 20.0
FAN, FAN_STEP, MOST_FAN = 30.0, 6.0, 90.0  # between servers and what joins them: more for more of it
SPACE = 6.0
MAX_ROW = 1500.0  # width from which on servers without a network between them begin a new row
SERVERS_A_ROW = 64  # on each side of the network: wires to a further row would lead round servers


@dataclass(frozen=True, slots=True)
class ServerBox:
    """The frame of a server and its captions, the first at ``caption_y``: name and GPUs, then rates by kind."""

    name: str
    box: Box
    captions: tuple[str, ...]
    caption_y: float


@dataclass(frozen=True, slots=True)
class Drawing:
    """``vertices[i]``, ``wires[i]``: those of the topology."""

    width: float
    height: float
    vertices: tuple[Box, ...]
    servers: tuple[ServerBox, ...]
    wires: tuple[WireCurve, ...]


def label(topology: Topology, vertex: int, box: Box) -> str:
    """What is written on a vertex: the rank of a GPU, of others as much of the name as there is room for."""
    if vertex < topology.ranks:
        return str(vertex)
    drawn = topology.vertices[vertex]
    name = drawn.name.removeprefix(f"{drawn.server}.") if drawn.server else drawn.name
    most = int(box.width / LETTER)
    while len(name) > most and "." in name:
        name = name.partition(".")[2]
    return name if len(name) <= most else name[: most - 1] + "…"


def drawing(topology: Topology) -> Drawing:
    """The picture of ``topology``."""
    members: dict[str, list[int]] = defaultdict(list)
    loose: list[int] = []
    with_gpus = {v.server for v in topology.vertices[: topology.ranks]}
    for i, vertex in enumerate(topology.vertices):
        if vertex.server in with_gpus and (vertex.server or vertex.kind == "gpu"):
            members[vertex.server].append(i)
        else:
            loose.append(i)
    joined, rates = _neighbours(topology), _rates(topology)
    blocks = []
    for name, inside in members.items():
        block = server_block(topology, inside, joined)
        captions = _captions(topology, name, inside, block.width - 16, rates.get(name, {}))
        blocks.append(_Captioned(name, block, captions))
    page = _Page(loose, joined, _domains(topology, loose, joined))
    page.arrange(blocks)
    boxes = tuple(page.placed[i] for i in range(len(topology.vertices)))
    wires = wire_curves(topology, boxes, page.arcs)
    return _with_room(Drawing(page.width, page.height, boxes, tuple(page.servers), wires))


def _neighbours(topology: Topology) -> Mapping[int, set[int]]:
    joined: dict[int, set[int]] = {i: set() for i in range(len(topology.vertices))}
    for wire in topology.wires:
        joined[wire.src].add(wire.dst)
        joined[wire.dst].add(wire.src)
    return joined


def _rates(topology: Topology) -> Mapping[str, Mapping[str, set[Fraction]]]:
    """By server and kind: what the wires of the server carry."""
    rates: dict[str, dict[str, set[Fraction]]] = defaultdict(lambda: defaultdict(set))
    for wire in topology.wires:
        if wire.bandwidth is not None:
            for server in {topology.vertices[wire.src].server, topology.vertices[wire.dst].server}:
                rates[server][wire.kind].add(wire.bandwidth * wire.lanes)
    return rates


def _with_room(drawn: Drawing) -> Drawing:
    """The drawing, made larger above and below where wires bend over its edge."""
    bends = [0.25 * (w.y1 + 2 * w.cy + w.y2) for w in drawn.wires]
    above = max(0.0, GAP / 2 - min(bends, default=GAP))
    below = max(0.0, max(bends, default=0.0) + GAP / 2 - drawn.height)
    return Drawing(
        drawn.width,
        drawn.height + above + below,
        tuple(box.moved(above) for box in drawn.vertices),
        tuple(replace(s, box=s.box.moved(above), caption_y=s.caption_y + above) for s in drawn.servers),
        tuple(replace(w, y1=w.y1 + above, cy=w.cy + above, y2=w.y2 + above) for w in drawn.wires),
    )


def _captions(
    topology: Topology, name: str, inside: Sequence[int], width: float, rates: Mapping[str, set[Fraction]]
) -> tuple[str, ...]:
    """The name with its GPUs, and the rates of its wires by kind, in lines no wider than ``width``."""
    models: dict[str, int] = defaultdict(int)
    for i in inside:
        if i < topology.ranks:
            models[topology.vertices[i].model or "GPU"] += 1
    gpus = " + ".join(f"{count} x {model}" for model, count in models.items())
    words = [f"{kind} {rate_range(bandwidths)}" for kind, bandwidths in rates.items()]
    if words:
        words[-1] += " GB/s"
    lines = [f"{name}: {gpus}" if name else gpus]
    for word in words:
        if len(lines) > 1 and (len(lines[-1]) + len(word) + 2) * LETTER <= width:
            lines[-1] += f", {word}"
        else:
            lines.append(word)
    most = max(8, int(width / LETTER))
    return tuple(line if len(line) <= most else line[: most - 1] + "…" for line in lines)


def rate_range(rates: set[Fraction]) -> str:
    """``25-50``: GB/s from the least to the most."""
    low, high = (f"{float(r) / 1e9:.4g}" for r in (min(rates), max(rates)))
    return low if low == high else f"{low}-{high}"


# -- servers together


@dataclass(frozen=True, slots=True)
class Domain:
    """Switches that join the GPUs of several servers past their NICs, and these servers."""

    switches: tuple[int, ...]
    servers: frozenset[str]


def _domains(topology: Topology, loose: Sequence[int], joined: Mapping[int, set[int]]) -> list[Domain]:
    """None where no other network joins the servers: what joins GPUs is the network then."""
    between = [i for i in loose if joined[i] and max(joined[i]) < topology.ranks]
    if all(i in between or not joined[i] for i in loose):
        return []
    domains: list[Domain] = []
    for i in between:
        servers = frozenset(topology.vertices[n].server for n in joined[i])
        alike = [d for d in domains if d.servers & servers]
        switches = (*(s for d in alike for s in d.switches), i)
        domains = [d for d in domains if d not in alike]
        domains.append(Domain(switches, servers.union(*(d.servers for d in alike))))
    return domains


@dataclass(frozen=True, slots=True)
class _Captioned:
    """A server with its captions."""

    name: str
    block: Block
    captions: tuple[str, ...]

    @property
    def height(self) -> float:
        """With the captions."""
        return self.block.height + self.head

    @property
    def head(self) -> float:
        """Of the captions."""
        return LINE * len(self.captions) + 8


class _Page:
    """Rows of servers and what joins them: one tier between two rows of servers, several tiers above one."""

    def __init__(
        self, loose: Sequence[int], joined: Mapping[int, set[int]], domains: Sequence[Domain] = ()
    ) -> None:
        self.joined = joined
        self.domains = domains
        apart = {i for domain in domains for i in domain.switches}
        self.tiers = _tiers([i for i in loose if i not in apart], joined)
        self.placed: dict[int, Box] = {}
        self.arcs: dict[tuple[int, int], float] = {}
        self.servers: list[ServerBox] = []
        self.width = self.height = 0.0

    def arrange(self, blocks: Sequence[_Captioned]) -> None:
        """Place everything."""
        rows = self._rows(blocks)
        self.width = max(sum(b.block.width for b in row) + GAP * (len(row) + 1) for row in rows)
        above = len(rows) // 2 if len(self.tiers) == 1 else 0
        y = GAP / 2
        if not above:
            y = self._network(rows, y)
        for number, row in enumerate(rows):
            if above and number == above:
                y = self._network(rows, y - GAP + MOST_FAN / 2)
            y = self._row(row, y, flip=number < above)
        self.height = y - GAP / 2

    def _rows(self, blocks: Sequence[_Captioned]) -> list[Sequence[_Captioned]]:
        if self.domains:
            return self._rows_of_domains(blocks)
        if not self.tiers:
            rows: list[list[_Captioned]] = [[]]
            for block in blocks:
                if rows[-1] and sum(b.block.width + GAP for b in (*rows[-1], block)) > MAX_ROW:
                    rows.append([])
                rows[-1].append(block)
            return list(rows)
        most = SERVERS_A_ROW
        if len(self.tiers) == 1 and 3 < len(blocks) <= 2 * most:
            most = (len(blocks) + 1) // 2
        return [blocks[i : i + most] for i in range(0, len(blocks), most)]

    def _rows_of_domains(self, blocks: Sequence[_Captioned]) -> list[Sequence[_Captioned]]:
        """The servers of a domain beside each other; two rows where one tier is between them."""
        place = {name: k for k, domain in enumerate(self.domains) for name in domain.servers}
        order = sorted(blocks, key=lambda b: place.get(b.name, len(place)))
        starts = [k for k in range(1, len(order)) if place.get(order[k].name) != place.get(order[k - 1].name)]
        if len(self.tiers) > 1 or not starts:
            return [order]
        half = min(starts, key=lambda k: abs(2 * k - len(order)))
        return [order[:half], order[half:]]

    def _row(self, row: Sequence[_Captioned], y: float, *, flip: bool) -> float:
        tallest = max(b.height for b in row)
        x = self._left(row)
        names = {b.name for b in row}
        domains = [domain for domain in self.domains if domain.servers & names]
        extra = BAR + FAN if domains else 0.0
        spans: dict[str, tuple[float, float]] = {}
        for server in row:
            self._frame(server, x, y + (extra + tallest - server.height if flip else 0), flip)
            spans[server.name] = (x, x + server.block.width)
            x += server.block.width + GAP
        for domain in domains:
            left = min(spans[name][0] for name in domain.servers)
            right = max(spans[name][1] for name in domain.servers)
            share = (right - left + SPACE) / len(domain.switches)
            for k, i in enumerate(domain.switches):
                top = y if flip else y + tallest + FAN
                self.placed[i] = Box(left + k * share, top, share - SPACE, BAR)
        return y + tallest + extra + GAP

    def _left(self, row: Sequence[_Captioned]) -> float:
        return (self.width - sum(b.block.width for b in row) - GAP * (len(row) - 1)) / 2

    def _frame(self, server: _Captioned, x: float, y: float, flip: bool) -> None:
        """Put the vertices of ``server`` where it stands; captions are on the side away from the network."""
        block = server.block
        for i, box in block.places.items():
            top = server.head + (block.height - box.y - box.height) if flip else box.y
            self.placed[i] = Box(x + box.x, y + top, box.width, box.height)
        self.arcs.update({pair: -depth if flip else depth for pair, depth in block.arcs.items()})
        caption = y + 5 if flip else y + block.height
        frame = Box(x, y, block.width, server.height)
        self.servers.append(ServerBox(server.name, frame, server.captions, caption + LINE - 2))

    def _network(self, rows: Sequence[Sequence[_Captioned]], y: float) -> float:
        """The tiers, the one that joins the servers last, each over what it joins."""
        if not self.tiers:
            return y
        centres: dict[int, float] = {}
        for row in rows:
            x = self._left(row)
            for server in row:
                centres.update({i: x + box.middle[0] for i, box in server.block.places.items()})
                x += server.block.width + GAP
        orders = []
        for tier in self.tiers:
            near = {i: [centres[n] for n in sorted(self.joined[i]) if n in centres] for i in tier}
            order = sorted(tier, key=lambda i: (sum(near[i]) / len(near[i]) if near[i] else 0.0, i))
            share = (self.width - 2 * GAP - SPACE * (len(order) - 1)) / len(order)
            for k, i in enumerate(order):
                centres[i] = GAP + k * (share + SPACE) + share / 2
            orders.append(order)
        for order in reversed(orders):
            share = (self.width - 2 * GAP - SPACE * (len(order) - 1)) / len(order)
            for i in order:
                self.placed[i] = Box(centres[i] - share / 2, y + 6, share, BAR)
            y += BAR + min(MOST_FAN, FAN + FAN_STEP * len(order))
        return y


def _tiers(loose: Sequence[int], joined: Mapping[int, set[int]]) -> list[list[int]]:
    """What joins servers, what joins that, and so on; the ends of a core stand beside each other."""
    rest, near = list(loose), set(joined) - set(loose)
    tiers = []
    while rest:
        tier = [i for i in rest if joined[i] & near] or rest
        tiers.append(tier)
        near = set(tier)
        rest = [i for i in rest if i not in near]
    return tiers
