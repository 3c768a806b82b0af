"""Where everything of a topology is drawn: boxes for servers, places for vertices, curves for wires.

In: a topology. Out: a ``Drawing`` in picture units (about pixels), y downward; the same topology gives the same
drawing. A server is drawn in layers, from the network inwards: NICs, CPUs, PCIe switches, buses, GPUs, switches;
what belongs to no server is a bar that the servers stand around. Knows nothing of schedules and of colours.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction

from hetesynth.model.topology import Topology, VertexKind, Wire

PITCH, ROW, PAD, GAP = 40.0, 42.0, 12.0, 16.0
LETTER, LINE = 5.6, 13.0  # of the captions
BAR = 20.0
BETWEEN = 20.0  # layers of a server
LANE = 2.0  # from the middle of a connection to the wire of one direction
SIZES: dict[VertexKind, tuple[float, float]] = {
    "gpu": (30.0, 24.0), "nic": (28.0, 15.0), "bus": (28.0, 12.0), "switch": (0.0, BAR), "fabric": (0.0, BAR),
    "pcie": (28.0, 12.0), "cpu": (28.0, 12.0), "numa": (28.0, 12.0), "router": (0.0, BAR),
}  # fmt: skip
LAYERS: tuple[VertexKind, ...] = ("nic", "cpu", "numa", "pcie", "bus", "gpu", "switch")
SERVERS_A_ROW = 6
MOST_ROUND = 16  # GPUs in a circle


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

    def moved(self, down: float) -> Box:
        """The box further down."""
        return replace(self, y=self.y + down)


@dataclass(frozen=True, slots=True)
class ServerBox:
    """The frame of a server and its captions, the first at ``caption_y``: name and GPUs, then rates by kind."""

    name: str
    box: Box
    captions: tuple[str, ...]
    caption_y: float


@dataclass(frozen=True, slots=True)
class WireCurve:
    """A quadratic curve: from, control point, to."""

    x1: float
    y1: float
    cx: float
    cy: float
    x2: float
    y2: float


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
    blocks = [_server(topology, name, inside) for name, inside in members.items()]
    placed, servers, width, height = _arranged(blocks, loose)
    boxes = tuple(placed[i] for i in range(len(topology.vertices)))
    parallel: dict[tuple[int, int], int] = defaultdict(int)
    wires = []
    for wire in topology.wires:
        wires.append(_curve(topology, boxes, wire, parallel[wire.src, wire.dst]))
        parallel[wire.src, wire.dst] += 1
    return _with_room(Drawing(width, height, boxes, servers, tuple(wires)))


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


# -- one server


@dataclass(frozen=True, slots=True)
class _Block:
    """A server at the origin, its network side up, captions not counted."""

    name: str
    width: float
    height: float
    places: dict[int, Box]
    captions: tuple[str, ...]

    @property
    def head(self) -> float:
        """Height of the captions."""
        return LINE * len(self.captions) + 8


def _server(topology: Topology, name: str, inside: list[int]) -> _Block:
    by_kind: dict[VertexKind, list[int]] = defaultdict(list)
    for i in inside:
        by_kind[topology.vertices[i].kind].append(i)
    by_kind["switch"] += by_kind.pop("fabric", []) + by_kind.pop("router", [])
    shifted = bool(by_kind["switch"])  # lower rows stand in the gaps of upper ones: a way to the bar for each
    columns = _columns(len(by_kind["gpu"]), shifted)
    inner = PITCH * (columns + (0.5 if shifted and len(by_kind["gpu"]) > columns else 0.0))
    if _round(len(by_kind["gpu"]), shifted):
        inner = 2 * _radius(len(by_kind["gpu"])) + PITCH
    inner = max(inner, 3 * PITCH)
    places: dict[int, Box] = {}
    y = PAD
    for kind in LAYERS:
        if kind == "switch":
            for i in by_kind[kind]:
                places[i] = Box(PAD, y, inner, BAR)
                y += BAR + 8
            continue
        if kind == "gpu" and _round(len(by_kind[kind]), shifted):
            y = _circle(by_kind[kind], inner, y, places)
        else:
            y = _rows(by_kind[kind], kind, (columns, inner), y, places, shifted=shifted and kind == "gpu")
    return _Block(
        name, inner + 2 * PAD, y + PAD - BETWEEN / 2, places, _captions(topology, name, inside, inner + PAD)
    )


def _columns(gpus: int, switched: bool) -> int:
    if not switched:
        return max(1, min(gpus, 4) if gpus <= 8 else math.ceil(math.sqrt(gpus)))
    return max(1, min(gpus, 4) if gpus <= 8 else 8)


def _round(gpus: int, switched: bool) -> bool:
    """Whether GPUs that are joined directly stand in a circle, where no connection passes behind a third."""
    return not switched and 3 <= gpus <= MOST_ROUND


def _radius(gpus: int) -> float:
    return max(40.0, gpus * PITCH * 1.1 / (2 * math.pi))


def _circle(members: list[int], inner: float, y: float, places: dict[int, Box]) -> float:
    width, height = SIZES["gpu"]
    radius = _radius(len(members))
    for k, i in enumerate(members):
        angle = 2 * math.pi * (k - 0.5) / len(members)  # from the left of the top, clockwise
        x, down = inner / 2 + radius * math.sin(angle), radius * (1 - math.cos(angle))
        places[i] = Box(PAD + x - width / 2, y + down, width, height)
    return y + 2 * radius + height + BETWEEN


def _rows(
    members: list[int],
    kind: VertexKind,
    room: tuple[int, float],
    y: float,
    places: dict[int, Box],
    *,
    shifted: bool,
) -> float:  # fmt: skip
    """Place ``members`` row by row from ``y`` down; where the next layer starts."""
    columns, inner = room
    width, height = SIZES[kind]
    a_row = columns if kind == "gpu" else max(1, int(inner // (width + 4)))
    rows = math.ceil(len(members) / a_row)
    down = ROW if kind == "gpu" else height + 8
    columns_width = PITCH * (columns + (0.5 if shifted and rows > 1 else 0.0))
    for k, i in enumerate(members):
        row, column = divmod(k, a_row)
        if kind == "gpu" and shifted:
            column, row = divmod(k, rows)
        if kind == "gpu":
            x = (inner - columns_width) / 2 + PITCH * (column + 0.5 + (0.5 if shifted and row % 2 else 0.0))
        else:
            x = inner / min(a_row, len(members) - row * a_row) * (column + 0.5)
        places[i] = Box(PAD + x - width / 2, y + row * down, width, height)
    return y + (rows - 1) * down + height + BETWEEN if members else y


def _captions(topology: Topology, name: str, inside: list[int], width: float) -> tuple[str, ...]:
    """The name with its GPUs, and the rates of its wires by kind, in lines no wider than ``width``."""
    models: dict[str, int] = defaultdict(int)
    for i in inside:
        if i < topology.ranks:
            models[topology.vertices[i].model or "GPU"] += 1
    mine = set(inside)
    rates: dict[str, set[Fraction]] = defaultdict(set)
    for wire in topology.wires:
        if wire.bandwidth is not None and (wire.src in mine or wire.dst in mine):
            rates[wire.kind].add(wire.bandwidth * wire.lanes)
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


def _arranged(
    blocks: list[_Block], loose: list[int]
) -> tuple[dict[int, Box], tuple[ServerBox, ...], float, float]:
    """All boxes: rows of servers, half of them above the bars and upside down if there are two rows or more."""
    rows = [blocks[i : i + SERVERS_A_ROW] for i in range(0, len(blocks), SERVERS_A_ROW)]
    if len(rows) == 1 and loose and len(blocks) > 3:
        half = (len(blocks) + 1) // 2
        rows = [blocks[:half], blocks[half:]]
    width = max(sum(b.width for b in row) + GAP * (len(row) + 1) for row in rows)
    above = len(rows) // 2 if loose else 0
    placed: dict[int, Box] = {}
    servers: list[ServerBox] = []
    y = GAP / 2
    for number, row in enumerate(rows):
        if number == above:
            y = _bars(loose, width, y, placed)
        tallest = max(b.height + b.head for b in row)
        x = (width - sum(b.width for b in row) - GAP * (len(row) - 1)) / 2
        for block in row:
            flip = number < above
            top = y + (tallest - block.height - block.head if flip else 0)
            servers.append(_frame(block, x, top, placed, flip))
            x += block.width + GAP
        y += tallest + GAP
    return placed, tuple(servers), width, y - GAP / 2


def _frame(block: _Block, x: float, y: float, placed: dict[int, Box], flip: bool) -> ServerBox:
    """Put the vertices of ``block`` where it stands; captions are on the side away from the network."""
    height = block.height + block.head
    for i, box in block.places.items():
        top = block.head + (block.height - box.y - box.height) if flip else box.y
        placed[i] = Box(x + box.x, y + top, box.width, box.height)
    caption = y + 5 if flip else y + block.height
    return ServerBox(block.name, Box(x, y, block.width, height), block.captions, caption + LINE - 2)


def _bars(loose: list[int], width: float, y: float, placed: dict[int, Box]) -> float:
    for i in loose:
        placed[i] = Box(GAP, y + 6, width - 2 * GAP, BAR)
        y += BAR + 10
    return y + (GAP + 14 if loose else 0)


# -- wires


def _curve(topology: Topology, boxes: tuple[Box, ...], wire: Wire, parallel: int) -> WireCurve:
    """From edge to edge, right of the middle line in its direction; long connections of GPUs are bent."""
    (x1, y1), (x2, y2) = _ends(boxes[wire.src], boxes[wire.dst])
    length = math.hypot(x2 - x1, y2 - y1) or 1.0
    dx, dy = (x2 - x1) / length, (y2 - y1) / length
    side = LANE + 3.0 * parallel
    ox, oy = -dy * side, dx * side
    bend = 0.16 * length if _bent(topology, wire) and length > 1.3 * ROW else 0.0
    cx, cy = (x1 + x2) / 2 - dy * bend, (y1 + y2) / 2 + dx * bend
    start, end = _edge(boxes[wire.src], dx, dy, (x1, y1)), _edge(boxes[wire.dst], -dx, -dy, (x2, y2))
    values = (start[0] + ox, start[1] + oy, cx + ox, cy + oy, end[0] + ox, end[1] + oy)
    if not bend:
        values = (*values[:2], (values[0] + values[4]) / 2, (values[1] + values[5]) / 2, *values[4:])
    return WireCurve(*(round(v, 1) for v in values))


def _bent(topology: Topology, wire: Wire) -> bool:
    """Long connections in a grid of GPUs, which would hide those between."""
    src, dst = topology.vertices[wire.src], topology.vertices[wire.dst]
    grid = topology.servers.count(src.server) > MOST_ROUND
    return src.kind == dst.kind == "gpu" and (grid or src.server != dst.server)


def _ends(a: Box, b: Box) -> tuple[tuple[float, float], tuple[float, float]]:
    """Points of two boxes that a straight line may join; a bar is met at the place across."""
    (ax, ay), (bx, by) = a.middle, b.middle
    if a.width > 2 * PITCH and b.width <= a.width:
        ax = min(max(bx, a.x + 6), a.x + a.width - 6)
    elif b.width > 2 * PITCH:
        bx = min(max(ax, b.x + 6), b.x + b.width - 6)
    return (ax, ay), (bx, by)


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
