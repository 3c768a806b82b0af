"""Where everything of a topology is drawn: boxes for servers, places for vertices, curves for wires.

What belongs to no server stands in rows between the servers, or above them where the network has tiers.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
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
        """How many points of ``curve`` are in other boxes than its ends, and so near that wires may be."""
        count = max(4, int(math.hypot(curve.x2 - curve.x1, curve.y2 - curve.y1) / SAMPLE) + 1)
        inside = near = 0
        for k in range(count + 1):
            x, y = curve.at(k / count)
            for i in self.cells.get((int(x // CELL), int(y // CELL)), ()):
                b, away = self.boxes[i], LANE + CLEAR
                across = max(b.x - x, x - b.x - b.width)
                down = max(b.y - y, y - b.y - b.height)
                if i not in ends and across < away and down < away:
                    near += 1
                    inside += across < LANE and down < 0
        return inside, near


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
        a, b, rows = boxes[pair[0]], boxes[pair[1]], pair[1] >= topology.ranks  # rows: edges that face each other
        if pair in arcs and pair not in middles:
            edge, arc = a.y + a.height if arcs[pair] > 0 else a.y, arcs[pair]
            middles[pair] = WireCurve(
                a.middle[0], edge, (a.middle[0] + b.middle[0]) / 2, edge + arc, b.middle[0], edge
            )
        elif pair not in middles:
            middles[pair] = _middle(pair, a, b, obstacles, rows)
        side = LANE + PARALLEL * parallel[wire.src, wire.dst]
        parallel[wire.src, wire.dst] += 1
        # Moved to the right of its direction; level where it leads from row to row.
        c, back = middles[pair], wire.src != pair[0]
        length = math.hypot(c.x2 - c.x1, c.y2 - c.y1) or 1.0
        away = -side if back else side
        ox, oy = -(c.y2 - c.y1) / length * away, (c.x2 - c.x1) / length * away
        if rows and _facing(a, b):
            ox, oy = math.copysign(side, ox or side), 0.0
        x1, y1, x2, y2 = (c.x2, c.y2, c.x1, c.y1) if back else (c.x1, c.y1, c.x2, c.y2)
        moved = (x1 + ox, y1 + oy, c.cx + ox, c.cy + oy, x2 + ox, y2 + oy)
        curves.append(WireCurve(*(round(value, 1) for value in moved)))
    return tuple(curves)


def _middle(pair: tuple[int, int], a: Box, b: Box, obstacles: _Obstacles | None, rows: bool) -> WireCurve:
    """The middle line of the connection of two vertices: straight where nothing is in between, else bent."""
    best = _between(a, b, 0.0, rows)
    if obstacles is None:
        return best
    least = obstacles.score(best, pair)
    if rows and _facing(a, b) and not least[0]:
        return best
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
    rates: dict[str, dict[str, set[Fraction]]] = defaultdict(lambda: defaultdict(set))  # by server, kind of wire
    for wire in topology.wires:
        joined[wire.src].add(wire.dst)
        joined[wire.dst].add(wire.src)
        if wire.bandwidth is not None:
            for server in {topology.vertices[wire.src].server, topology.vertices[wire.dst].server}:
                rates[server][wire.kind].add(wire.bandwidth * wire.lanes)
    blocks = []
    for name, inside in members.items():
        block = server_block(topology, inside, joined)
        models = Counter(topology.vertices[i].model or "GPU" for i in inside if i < topology.ranks)
        gpus = " + ".join(f"{count} x {model}" for model, count in models.items())
        lines = [f"{name}: {gpus}" if name else gpus]  # then rates, in lines no wider than the block
        words = [f"{kind} {rate_range(bandwidths)}" for kind, bandwidths in rates[name].items()]
        for k, word in enumerate(words):
            text = word if k < len(words) - 1 else f"{word} GB/s"
            if len(lines) > 1 and (len(lines[-1]) + len(text) + 2) * LETTER <= block.width - 16:
                lines[-1] += f", {text}"
            else:
                lines.append(text)
        most = max(8, int((block.width - 16) / LETTER))
        captions = tuple(line if len(line) <= most else line[: most - 1] + "…" for line in lines)
        blocks.append(_Captioned(name, block, captions))
    page = _Page(topology, loose, joined)
    page.arrange(blocks)
    boxes = tuple(page.placed[i] for i in range(len(topology.vertices)))
    wires = wire_curves(topology, boxes, page.arcs)
    bends = [0.25 * (w.y1 + 2 * w.cy + w.y2) for w in wires]  # room is made where wires bend over the edge
    above = max(0.0, GAP / 2 - min(bends, default=GAP))
    below = max(0.0, max(bends, default=0.0) + GAP / 2 - page.height)
    return Drawing(
        page.width,
        page.height + above + below,
        tuple(replace(box, y=box.y + above) for box in boxes),
        tuple(
            replace(s, box=replace(s.box, y=s.box.y + above), caption_y=s.caption_y + above) for s in page.servers
        ),
        tuple(replace(w, y1=w.y1 + above, cy=w.cy + above, y2=w.y2 + above) for w in wires),
    )


def rate_range(rates: set[Fraction]) -> str:
    """``25-50``: GB/s from the least to the most."""
    low, high = (f"{float(r) / 1e9:.4g}" for r in (min(rates), max(rates)))
    return low if low == high else f"{low}-{high}"


# -- servers together


@dataclass(frozen=True, slots=True)
class _Captioned:
    """A server with its captions."""

    name: str
    block: Block
    captions: tuple[str, ...]

    @property
    def head(self) -> float:
        """The height of the captions."""
        return LINE * len(self.captions) + 8

    @property
    def height(self) -> float:
        """With the captions."""
        return self.block.height + self.head


class _Page:
    """Rows of servers and what joins them: one tier between two rows of servers, several tiers above one."""

    def __init__(self, topology: Topology, loose: Sequence[int], joined: Mapping[int, set[int]]) -> None:
        self.joined = joined
        # Switches that join the GPUs of several servers past their NICs, and these servers; none where no other
        # network joins the servers: what joins GPUs is the network then.
        self.domains: list[tuple[list[int], set[str]]] = []
        between = [i for i in loose if joined[i] and max(joined[i]) < topology.ranks]
        if any(i not in between and joined[i] for i in loose):
            for i in between:
                switches, servers = [i], {topology.vertices[n].server for n in joined[i]}
                alike = [domain for domain in self.domains if domain[1] & servers]
                self.domains = [domain for domain in self.domains if domain not in alike]
                switches = [*(s for domain in alike for s in domain[0]), i]
                self.domains.append((switches, servers.union(*(domain[1] for domain in alike))))
        # What joins servers, what joins that, and so on; the ends of a core stand beside each other.
        rest = [i for i in loose if not any(i in switches for switches, _ in self.domains)]
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
        most = SERVERS_A_ROW
        if len(self.tiers) == 1 and 3 < len(blocks) <= 2 * most:
            most = (len(blocks) + 1) // 2
        rows: list[Sequence[_Captioned]] = [blocks[i : i + most] for i in range(0, len(blocks), most)]
        if self.domains:  # the servers of one beside each other; two rows where one tier is between them
            place = {name: k for k, (_, servers) in enumerate(self.domains) for name in servers}
            order = sorted(blocks, key=lambda b: place.get(b.name, len(place)))
            starts = [k for k in range(1, len(order)) if place.get(order[k].name) != place.get(order[k - 1].name)]
            rows = [order]
            if len(self.tiers) == 1 and starts:
                half = min(starts, key=lambda k: abs(2 * k - len(order)))
                rows = [order[:half], order[half:]]
        elif not self.tiers:
            wide: list[list[_Captioned]] = [[]]
            for block in blocks:
                if wide[-1] and sum(b.block.width + GAP for b in (*wide[-1], block)) > MAX_ROW:
                    wide.append([])
                wide[-1].append(block)
            rows = list(wide)
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

    def _row(self, row: Sequence[_Captioned], y: float, *, flip: bool) -> float:
        tallest = max(b.height for b in row)
        x = self._left(row)
        names = {b.name for b in row}
        domains = [domain for domain in self.domains if domain[1] & names]
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
        for switches, servers in domains:
            left, right = min(spans[name][0] for name in servers), max(spans[name][1] for name in servers)
            share = (right - left + SPACE) / len(switches)
            for k, i in enumerate(switches):
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
        shares = []
        for tier in self.tiers:
            near = {i: [centres[n] for n in sorted(self.joined[i]) if n in centres] for i in tier}
            tier.sort(key=lambda i: (sum(near[i]) / len(near[i]) if near[i] else 0.0, i))
            share = (self.width - 2 * GAP - SPACE * (len(tier) - 1)) / len(tier)
            for k, i in enumerate(tier):
                centres[i] = GAP + k * (share + SPACE) + share / 2
            shares.append(share)
        for order, share in zip(reversed(self.tiers), reversed(shares), strict=True):
            for i in order:
                self.placed[i] = Box(centres[i] - share / 2, y + 6, share, BAR)
            y += BAR + min(MOST_FAN, FAN + FAN_STEP * len(order))
        return y
