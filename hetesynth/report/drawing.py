"""Where everything of a topology is drawn: frames for servers, boxes for vertices, curves for wires.

From above: what joins servers, tier by tier; the servers side by side, each in rows from its NICs to its GPUs and
the switches that join these alone; and below all, switches that join the GPUs of several servers. GPUs that are
joined directly and by nothing else stand in a grid or a circle. Boxes are to be painted over wires, which lead
from edge to edge, or from middle to middle in a row.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from hetesynth.model.timeline import Floats
from hetesynth.model.topology import Topology, VertexKind

GAP, PAD, SPACE = 16.0, 12.0, 4.0  # between servers; inside their frames; between boxes
LETTER, LINE = 5.6, 13.0  # of the captions
GPU, PART, BAR = (30.0, 24.0), (34.0, 15.0), 20.0  # BAR: the height of what joins servers
PITCH, ROW = 40.0, 42.0  # from GPU to GPU in a row; from row to row
GRID_PITCH, ROUND_PITCH = 74.0, 62.0  # from GPU to GPU in a grid, and in a circle
FAN, FAN_STEP, MOST_FAN = 30.0, 6.0, 90.0  # between servers and what joins them: more for more of it
LANE, PARALLEL = 2.0, 3.0  # from the middle of a connection to the wire of one direction; to the next wire of it
BENDS = (0.0, *(sign * 0.03 * k for k in range(1, 31) for sign in (1, -1)))  # of the length
MANY_WIRES = 5_000  # are not led round boxes
LEVELS: Mapping[VertexKind, int] = {"numa": 2, "cpu": 3}  # at least, counted from the GPUs


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle by its left upper corner."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> tuple[float, float]:
        """The centre."""
        return self.x + self.width / 2, self.y + self.height / 2

    def moved(self, x: float, y: float) -> Box:
        """Return the box moved right by ``x`` and down by ``y``."""
        return Box(self.x + x, self.y + y, self.width, self.height)


class WireCurve(NamedTuple):
    """A quadratic curve: from, control point, to."""

    x1: float
    y1: float
    cx: float
    cy: float
    x2: float
    y2: float


@dataclass(frozen=True, slots=True)
class ServerBox:
    """The frame of a server and, at ``caption_y``, its name and GPUs."""

    name: str
    box: Box
    caption: str
    caption_y: float


@dataclass(frozen=True, slots=True)
class Drawing:
    """The picture of a topology: ``vertices[i]`` and ``wires[i]`` are drawn for vertex i and wire i of it."""

    width: float
    height: float
    vertices: tuple[Box, ...]
    servers: tuple[ServerBox, ...]
    wires: tuple[WireCurve, ...]


def shortened(text: str, most: int) -> str:
    """Return ``text``, cut to ``most`` letters with an ellipsis where it is longer."""
    return text if len(text) <= most else text[: most - 1] + "…"


def label(topology: Topology, vertex: int, box: Box) -> str:
    """Return the label of a vertex: the rank of a GPU, for others as much of the name as ``box`` has room for."""
    if vertex < topology.ranks:
        return str(vertex)
    drawn = topology.vertices[vertex]
    name = drawn.name.removeprefix(f"{drawn.server}.") if drawn.server else drawn.name
    most = int(box.width / LETTER)
    while len(name) > most and "." in name:
        name = name.partition(".")[2]
    return shortened(name, most)


def rate_range(rates: set[Fraction]) -> str:
    """Return the least and the greatest of ``rates`` in GB/s: ``25-50``, or ``25`` where both are alike."""
    low, high = (f"{float(r) / 1e9:.4g}" for r in (min(rates), max(rates)))
    return low if low == high else f"{low}-{high}"


def drawing(topology: Topology) -> Drawing:
    """Return the picture of ``topology``."""
    joined: dict[int, set[int]] = {i: set() for i in range(len(topology.vertices))}
    for wire in topology.wires:
        joined[wire.src].add(wire.dst)
        joined[wire.dst].add(wire.src)
    members: dict[str, list[int]] = {server: [] for server in topology.servers}
    loose: list[int] = []
    for i, vertex in enumerate(topology.vertices):
        own = vertex.server in members and (vertex.server or vertex.kind == "gpu")
        (members[vertex.server] if own else loose).append(i)
    blocks = {server: _server(topology, inside, joined) for server, inside in members.items()}
    lefts: dict[str, float] = {}
    width = GAP
    for server, block in blocks.items():
        lefts[server] = width
        width += block.width + GAP
    places = {i: box.moved(lefts[server], 0.0) for server, of in blocks.items() for i, box in of.places.items()}

    # switches of GPUs alone stand below; above stands what joins servers, what joins that, and so on
    under = [i for i in loose if joined[i] and max(joined[i]) < topology.ranks]
    tiers = _tiers([i for i in loose if i not in under], set(joined) - set(loose), joined)
    fans = [BAR + min(MOST_FAN, FAN + FAN_STEP * len(tier)) for tier in tiers]
    top = GAP + (sum(fans) or 2 * MOST_FAN * (len(blocks) > 1))  # room for wires from server to server
    bottom = top + max(block.height for block in blocks.values()) + LINE
    for tier, y in [*((t, top - sum(fans[: n + 1])) for n, t in enumerate(tiers)), (under, bottom + FAN)]:
        middles = {i: [places[n].middle[0] for n in joined[i] if n in places] or [0.0] for i in tier}
        share = (width - 2 * GAP + SPACE) / max(1, len(tier))
        for k, i in enumerate(sorted(tier, key=lambda i: (sum(middles[i]) / len(middles[i]), i))):
            places[i] = Box(GAP + k * share, y, share - SPACE, BAR)
    servers = []
    for server, block in blocks.items():
        places.update({i: places[i].moved(0.0, top) for i in block.places})
        frame = Box(lefts[server], top, block.width, block.height + LINE)
        models = Counter(topology.vertices[i].model or "GPU" for i in members[server] if i < topology.ranks)
        gpus = " + ".join(f"{count} x {model}" for model, count in models.items())
        caption = shortened(f"{server}: {gpus}" if server else gpus, max(8, int((block.width - 16) / LETTER)))
        servers.append(ServerBox(server, frame, caption, top + block.height + 4))
    boxes = tuple(places[i] for i in range(len(topology.vertices)))
    height = bottom + GAP + (FAN + BAR if under else 0.0)
    return Drawing(width, height, boxes, tuple(servers), _wires(topology, boxes, (width, height)))


def _tiers(left: Sequence[int], near: set[int], joined: Mapping[int, set[int]]) -> list[list[int]]:
    """Return the vertices ``left`` by their distance from ``near``; vertices not joined to ``near`` come last."""
    tiers: list[list[int]] = []
    while left:
        tiers.append([i for i in left if joined[i] & near] or [*left])
        near = set(tiers[-1])
        left = [i for i in left if i not in near]
    return tiers


# -- one server


@dataclass(frozen=True, slots=True)
class _Block:
    """A server at the origin, captions not counted."""

    width: float
    height: float
    places: dict[int, Box]


def _server(topology: Topology, inside: Sequence[int], joined: Mapping[int, set[int]]) -> _Block:
    """Return the block of the vertices ``inside``; ``joined[i]``: the neighbors of i in the whole cluster."""
    gpus = [i for i in inside if i < topology.ranks]
    nics = [i for i in inside if topology.vertices[i].kind == "nic"]
    lower = [i for i in inside if i not in {*gpus, *nics} and joined[i] <= set(gpus)]
    left = [i for i in inside if i not in {*gpus, *nics, *lower}]
    levels: dict[int, list[int]] = defaultdict(list)  # 1 for what joins GPUs or NICs, 2 for what joins that, ...
    for depth, near in enumerate(_tiers(left, {*gpus, *nics}, joined), 1):
        for i in near:
            levels[max(depth, LEVELS.get(topology.vertices[i].kind, 0))].append(i)
    order = {rank: k for k, rank in enumerate(gpus)}
    pairs = {(order[a], order[b]) for a in gpus for b in joined[a] if b in order and order[a] < order[b]}
    alone = bool(pairs) and not lower and not levels
    points = _shape(len(gpus), pairs) if alone else [(PITCH * k, 0.0) for k in range(len(gpus))]
    wide, deep = (max(at) for at in zip(*points, strict=True))
    rows = [nics, *(levels[level] for level in sorted(levels, reverse=True)), gpus, lower]
    inner = max(wide + PITCH, 3 * PITCH, *((PART[0] + SPACE) * len(row) for row in rows if row is not gpus))
    start = (inner - wide) / 2
    spans = {i: (start + x, GPU[0]) for i, (x, _) in zip(gpus, points, strict=True)}  # middle and width
    for number, row in enumerate([lower, *(levels[level] for level in sorted(levels)), nics]):
        wishes = {}
        for i in row:
            near_x = [spans[n][0] for n in joined[i] if n in spans] or [inner / 2]
            bar = max(near_x) - min(near_x) + GPU[0] if number < 2 and row is not nics else 0.0
            wishes[i] = sum(near_x) / len(near_x), max(PART[0], bar)
        spans |= _spread(wishes, inner)
    places: dict[int, Box] = {}
    y = PAD
    for row in filter(None, rows):
        for k, i in enumerate(row):
            (x, width), height = spans[i], GPU[1] if row is gpus else PART[1]
            places[i] = Box(PAD + x - width / 2, y + (points[k][1] if row is gpus else 0.0), width, height)
        y += ROW + (deep if row is gpus else 0.0)
    return _Block(inner + 2 * PAD, y - ROW + GPU[1] + PAD, places)


def _shape(count: int, pairs: set[tuple[int, int]]) -> list[tuple[float, float]]:
    """Return places in a grid where each connection joins neighbors or both ends of a line, else in a circle."""
    for columns in sorted(range(2, count // 2 + 1), key=lambda c: (abs(c - math.sqrt(count)), -c)):
        lines = {(0, 1), (0, columns - 1), (1, 0), (count // columns - 1, 0)}
        steps = {(abs(a // columns - b // columns), abs(a % columns - b % columns)) for a, b in pairs}
        if count % columns == 0 and count >= 6 and steps <= lines:
            return [(GRID_PITCH * (k % columns), GRID_PITCH * (k // columns)) for k in range(count)]
    radius = count * ROUND_PITCH / (2 * math.pi)
    angles = [2 * math.pi * (k - 0.5) / count for k in range(count)]  # clockwise from the left of the top
    return [(radius * (1 + math.sin(a)), radius * (1 - math.cos(a))) for a in angles]


def _spread(wishes: Mapping[int, tuple[float, float]], inner: float) -> dict[int, tuple[float, float]]:
    """Return the boxes of a row (middle, width), moved and narrowed to fit ``inner`` with ``SPACE`` between."""
    order = sorted(wishes, key=lambda i: (wishes[i][0], i))
    share = inner / max(1, len(order)) - SPACE
    crowded = sum(width + SPACE for _, width in wishes.values()) > inner + SPACE
    widths = {i: min(width, share) if crowded else width for i, (_, width) in wishes.items()}
    alike = Counter(round(x, 3) for x, _ in wishes.values())  # stand on both sides of the place they share
    middles, edge = {}, 0.0
    for i in order:
        wish, space = wishes[i][0], (widths[i] + SPACE) / 2
        middles[i] = max(wish - (alike[round(wish, 3)] - 1) * space, edge + widths[i] / 2)
        edge = middles[i] + widths[i] / 2 + SPACE
    edge = inner
    for i in reversed(order):
        middles[i] = min(middles[i], edge - widths[i] / 2)
        edge = middles[i] - widths[i] / 2 - SPACE
    return {i: (middles[i], widths[i]) for i in order}


# -- wires


def _wires(topology: Topology, boxes: Sequence[Box], page: tuple[float, float]) -> tuple[WireCurve, ...]:
    """Return a curve for each wire, beside the middle line of its connection, on the right of its direction."""
    parallel: Counter[tuple[int, int]] = Counter()
    corners = np.array([[b.x, b.y, b.x + b.width, b.y + b.height] for b in boxes]).T
    middles: dict[tuple[int, int], WireCurve] = {}
    curves = []
    for wire in topology.wires:
        pair = (min(wire.src, wire.dst), max(wire.src, wire.dst))
        if pair not in middles:
            bends = BENDS if len(topology.wires) <= MANY_WIRES else BENDS[:1]
            middles[pair] = _middle_line(pair, boxes, corners, page, bends)
        x1, y1, cx, cy, x2, y2 = middles[pair]
        if wire.src != pair[0]:
            x1, y1, x2, y2 = x2, y2, x1, y1
        side = LANE + PARALLEL * parallel[wire.src, wire.dst]
        parallel[wire.src, wire.dst] += 1
        length = math.hypot(x2 - x1, y2 - y1) or 1.0
        across, down = -(y2 - y1) / length * side, (x2 - x1) / length * side
        moved = (x1 + across, y1 + down, cx + across, cy + down, x2 + across, y2 + down)
        curves.append(WireCurve(*(round(value, 1) for value in moved)))
    return tuple(curves)


def _middle_line(
    pair: tuple[int, int], boxes: Sequence[Box], corners: Floats, page: tuple[float, float], bends: Sequence[float]
) -> WireCurve:
    """Return a curve between the boxes of ``pair``: the least bend that avoids other boxes, else meets fewest."""
    a, b = (boxes[i] for i in pair)
    (x1, y1), (x2, y2) = a.middle, b.middle
    if a.width > b.width:  # the wider one is met at the place across, or near its end
        x1 = min(max(x2, a.x + a.width / 5), a.x + a.width * 4 / 5) if not a.x < x2 < a.x + a.width else x2
    elif b.width > a.width:
        x2 = min(max(x1, b.x + b.width / 5), b.x + b.width * 4 / 5) if not b.x < x1 < b.x + b.width else x1
    if a.y + a.height <= b.y or b.y + b.height <= a.y:  # one above the other: between edges that face each other
        y1, y2 = (a.y + a.height, b.y) if a.y < b.y else (a.y, b.y + b.height)
    t = np.linspace(0.0, 1.0, 65)[:, None]
    best, least = None, math.inf
    for bend in bends:
        cx, cy = (x1 + x2) / 2 - (y2 - y1) * bend, (y1 + y2) / 2 + (x2 - x1) * bend
        x, y = ((1 - t) ** 2 * p + 2 * t * (1 - t) * q + t**2 * r for p, q, r in ((x1, cx, x2), (y1, cy, y2)))
        away = 2 * LANE
        hit = (corners[0] - away < x) & (x < corners[2] + away) & (corners[1] - away < y) & (y < corners[3] + away)
        hit[:, pair] = (x < 0) | (x > page[0]) | (y < 0) | (y > page[1])
        if (number := int(hit.sum())) < least:
            best, least = WireCurve(x1, y1, cx, cy, x2, y2), number
        if not least:
            break
    assert best is not None
    return best
