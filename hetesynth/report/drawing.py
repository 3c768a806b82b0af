"""Where everything of a topology is drawn: boxes for servers, places for vertices, curves for wires.

What belongs to no server stands in rows between the servers, or above them where the network has tiers.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from hetesynth.model.topology import Topology
from hetesynth.report.server_layout import Block, Box, server_block

GAP = 16.0
LETTER, LINE = 5.6, 13.0  # of the captions
BAR = 20.0
FAN, FAN_STEP, MOST_FAN = 30.0, 6.0, 90.0  # between servers and what joins them: more for more of it
SPACE = 6.0
MAX_ROW = 1500.0  # width from which on servers without a network between them begin a new row
SERVERS_A_ROW = 64  # on each side of the network: wires to a further row would lead round servers
LANE, PARALLEL = 2.0, 3.0  # from the middle of a connection to the wire of one direction; to the next wire of it
CLEAR = 1.0  # between a wire and a box
SAMPLE = 2.5
BENDS = tuple(sign * 0.03 * k for k in range(1, 31) for sign in (1, -1))  # of the length
MANY_WIRES = 5_000  # are not led round boxes
CELL, MARGIN = 64.0, 4.0
INSET = 4.0
SPREAD, MOST_SPREAD = 0.25, 90.0  # of a wide box, for wires that come from beside it


@dataclass(frozen=True, slots=True)
class WireCurve:
    """A quadratic curve: from, control point, to."""

    x1: float
    y1: float
    cx: float
    cy: float
    x2: float
    y2: float

    def at(self, t: float) -> tuple[float, float]:
        """The point at ``t``, from 0 to 1."""
        u = 1 - t
        return (
            u * u * self.x1 + 2 * u * t * self.cx + t * t * self.x2,
            u * u * self.y1 + 2 * u * t * self.cy + t * t * self.y2,
        )


class _Obstacles:
    """Boxes by the cells of a grid that they touch; wide ones beside them."""

    def __init__(self, boxes: Sequence[Box]) -> None:
        self.boxes = boxes
        self.cells: dict[tuple[int, int], list[int]] = defaultdict(list)
        for i, b in enumerate(boxes):
            left, top = b.x - MARGIN, b.y - MARGIN
            for column in range(int(left // CELL), int((b.x + b.width + MARGIN) // CELL) + 1):
                for row in range(int(top // CELL), int((b.y + b.height + MARGIN) // CELL) + 1):
                    self.cells[column, row].append(i)

    def score(self, curve: WireCurve, ends: tuple[int, int]) -> tuple[int, int]:
        """How much of ``curve`` is in boxes, and how much is so near that a wire beside it may be."""
        near = self.hit(curve, ends, LANE + CLEAR, LANE + CLEAR)
        return (self.hit(curve, ends, LANE, 0.0) if near else 0), near

    def hit(self, curve: WireCurve, ends: tuple[int, int], across: float, down: float) -> int:
        """How many points of ``curve`` are in, or that near to, boxes that are not its ends."""
        length = math.hypot(curve.x2 - curve.x1, curve.y2 - curve.y1)
        count = max(4, int(length / SAMPLE) + 1)
        inside = 0
        for k in range(count + 1):
            x, y = curve.at(k / count)
            for i in self.cells.get((int(x // CELL), int(y // CELL)), ()):
                b = self.boxes[i]
                if (
                    i not in ends
                    and b.x - across < x < b.x + b.width + across
                    and b.y - down < y < b.y + b.height + down
                ):
                    inside += 1
        return inside


def wire_curves(
    topology: Topology, boxes: Sequence[Box], arcs: Mapping[tuple[int, int], float]
) -> tuple[WireCurve, ...]:
    """``arcs``: by pair of GPUs in a row, how far below it the control point of their connection is."""
    parallel: dict[tuple[int, int], int] = defaultdict(int)
    obstacles = _Obstacles(boxes) if len(topology.wires) <= MANY_WIRES else None
    middles: dict[tuple[int, int], WireCurve] = {}
    curves = []
    for wire in topology.wires:
        pair = (min(wire.src, wire.dst), max(wire.src, wire.dst))
        if pair not in middles:
            middles[pair] = _middle(pair, boxes, arcs.get(pair), obstacles, pair[1] >= topology.ranks)
        side = LANE + PARALLEL * parallel[wire.src, wire.dst]
        parallel[wire.src, wire.dst] += 1
        upright = pair[1] >= topology.ranks and _facing(boxes[pair[0]], boxes[pair[1]])
        curves.append(_beside(middles[pair], side, back=wire.src != pair[0], upright=upright))
    return tuple(curves)


def _middle(
    pair: tuple[int, int], boxes: Sequence[Box], arc: float | None, obstacles: _Obstacles | None, rows: bool
) -> WireCurve:
    """The middle line of the connection of two vertices: straight where nothing is in between, else bent.

    ``rows``: it joins edges that face each other.
    """
    a, b = boxes[pair[0]], boxes[pair[1]]
    if arc is not None:
        edge = a.y + a.height if arc > 0 else a.y
        return WireCurve(a.middle[0], edge, (a.middle[0] + b.middle[0]) / 2, edge + arc, b.middle[0], edge)
    straight = _between(a, b, 0.0, rows)
    if obstacles is None:
        return straight
    best, least = straight, obstacles.score(straight, pair)
    if rows and _facing(a, b) and not least[0]:
        return straight
    sense = -1 if rows and a.y == b.y and a.x < b.x else 1  # parts of one row: over it first
    for bend in BENDS:
        if not any(least):
            break
        curve = _between(a, b, sense * bend, rows)
        score = obstacles.score(curve, pair)
        if score < least:
            best, least = curve, score
    return best


def _between(a: Box, b: Box, bend: float, rows: bool) -> WireCurve:
    """From box to box: between edges that face each other, else from the middles."""
    (x1, y1), (x2, y2) = a.middle, b.middle
    if a.width > b.width:  # the wider one is met at the place across
        x1 = _across(a, x2)
    elif b.width > a.width:
        x2 = _across(b, x1)
    length = math.hypot(x2 - x1, y2 - y1) or 1.0
    dx, dy = (x2 - x1) / length, (y2 - y1) / length
    cx, cy = (x1 + x2) / 2 - dy * bend * length, (y1 + y2) / 2 + dx * bend * length
    if rows and _facing(a, b):
        y1, y2 = (a.y + a.height, b.y) if a.y < b.y else (a.y, b.y + b.height)
    else:
        x1, y1 = _edge(a, cx - x1, cy - y1, (x1, y1))
        x2, y2 = _edge(b, cx - x2, cy - y2, (x2, y2))
    if not bend:
        cx, cy = (x1 + x2) / 2, (y1 + y2) / 2
    return WireCurve(x1, y1, cx, cy, x2, y2)


def _facing(a: Box, b: Box) -> bool:
    """Whether one is above the other."""
    return a.y + a.height <= b.y or b.y + b.height <= a.y


def _beside(c: WireCurve, side: float, *, back: bool, upright: bool) -> WireCurve:
    """``c`` moved to the right of its direction, or of the other one; level where it leads from row to row."""
    length = math.hypot(c.x2 - c.x1, c.y2 - c.y1) or 1.0
    away = -side if back else side
    ox, oy = -(c.y2 - c.y1) / length * away, (c.x2 - c.x1) / length * away
    if upright:
        ox, oy = math.copysign(side, ox or side), 0.0
    x1, y1, x2, y2 = (c.x2, c.y2, c.x1, c.y1) if back else (c.x1, c.y1, c.x2, c.y2)
    return WireCurve(*(round(v, 1) for v in (x1 + ox, y1 + oy, c.cx + ox, c.cy + oy, x2 + ox, y2 + oy)))


def _across(box: Box, x: float) -> float:
    """Where a wide box is met from ``x``: at ``x`` itself, else near its end, further in for what is nearer."""
    left, right = box.x + INSET, box.x + box.width - INSET
    away = max(left - x, x - right)
    if away <= 0:
        return x
    share = box.width / (box.width + away) if box.width > MOST_SPREAD else 0.0
    inwards = min(box.width * SPREAD, MOST_SPREAD) * share
    return left + inwards if x < left else right - inwards


def _edge(box: Box, dx: float, dy: float, at: tuple[float, float]) -> tuple[float, float]:
    """Where the ray from ``at`` inside ``box`` leaves it."""
    x, y = at
    reach = []
    if dx:
        reach.append(((box.x + box.width if dx > 0 else box.x) - x) / dx)
    if dy:
        reach.append(((box.y + box.height if dy > 0 else box.y) - y) / dy)
    far = min(reach, default=0.0)
    return x + dx * far, y + dy * far


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
    joined: dict[int, set[int]] = {i: set() for i in range(len(topology.vertices))}
    rates: dict[str, dict[str, set[Fraction]]] = defaultdict(
        lambda: defaultdict(set)
    )  # by server and kind of wire
    for wire in topology.wires:
        joined[wire.src].add(wire.dst)
        joined[wire.dst].add(wire.src)
        if wire.bandwidth is not None:
            for server in {topology.vertices[wire.src].server, topology.vertices[wire.dst].server}:
                rates[server][wire.kind].add(wire.bandwidth * wire.lanes)
    blocks = []
    for name, inside in members.items():
        block = server_block(topology, inside, joined)
        captions = _captions(topology, name, inside, block.width - 16, rates.get(name, {}))
        blocks.append(_Captioned(name, block, captions))
    page = _Page(loose, joined, _domains(topology, loose, joined))
    page.arrange(blocks)
    boxes = tuple(page.placed[i] for i in range(len(topology.vertices)))
    wires = wire_curves(topology, boxes, page.arcs)
    bends = [0.25 * (w.y1 + 2 * w.cy + w.y2) for w in wires]  # room is made where wires bend over the edge
    above = max(0.0, GAP / 2 - min(bends, default=GAP))
    below = max(0.0, max(bends, default=0.0) + GAP / 2 - page.height)
    return Drawing(
        page.width,
        page.height + above + below,
        tuple(box.moved(above) for box in boxes),
        tuple(replace(s, box=s.box.moved(above), caption_y=s.caption_y + above) for s in page.servers),
        tuple(replace(w, y1=w.y1 + above, cy=w.cy + above, y2=w.y2 + above) for w in wires),
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
        # What joins servers, what joins that, and so on; the ends of a core stand beside each other.
        rest = [i for i in loose if i not in apart]
        near = set(joined) - set(rest)
        self.tiers: list[list[int]] = []
        while rest:
            tier = [i for i in rest if joined[i] & near] or rest
            self.tiers.append(tier)
            near = set(tier)
            rest = [i for i in rest if i not in near]
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
        if self.domains:  # the servers of one beside each other; two rows where one tier is between them
            place = {name: k for k, domain in enumerate(self.domains) for name in domain.servers}
            order = sorted(blocks, key=lambda b: place.get(b.name, len(place)))
            starts = [k for k in range(1, len(order)) if place.get(order[k].name) != place.get(order[k - 1].name)]
            if len(self.tiers) > 1 or not starts:
                return [order]
            half = min(starts, key=lambda k: abs(2 * k - len(order)))
            return [order[:half], order[half:]]
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

    def _row(self, row: Sequence[_Captioned], y: float, *, flip: bool) -> float:
        tallest = max(b.height for b in row)
        x = self._left(row)
        names = {b.name for b in row}
        domains = [domain for domain in self.domains if domain.servers & names]
        extra = BAR + FAN if domains else 0.0
        spans: dict[str, tuple[float, float]] = {}
        for server in row:
            block, above = server.block, y + (extra + tallest - server.height if flip else 0)
            for i, box in block.places.items():
                top = server.head + (block.height - box.y - box.height) if flip else box.y
                self.placed[i] = Box(x + box.x, above + top, box.width, box.height)
            self.arcs.update({pair: -depth if flip else depth for pair, depth in block.arcs.items()})
            caption = above + 5 if flip else above + block.height  # on the side away from the network
            frame = Box(x, above, block.width, server.height)
            self.servers.append(ServerBox(server.name, frame, server.captions, caption + LINE - 2))
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
