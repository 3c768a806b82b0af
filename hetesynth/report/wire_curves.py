"""The way of every wire in a drawing: from edge to edge, round the boxes it does not join.

In: boxes, wires, arcs. Out: a curve for each wire. The two directions of a connection run beside each other.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from hetesynth.model.topology import Topology
from hetesynth.report.boxes import Box, WireCurve

LANE, PARALLEL = 2.0, 3.0  # from the middle of a connection to the wire of one direction; to the next wire of it
CLEAR = 1.0  # between a wire and a box
SAMPLE = 2.5
BENDS = tuple(sign * 0.03 * k for k in range(1, 31) for sign in (1, -1))  # of the length
MANY_WIRES = 5_000  # are not led round boxes
CELL, MARGIN = 64.0, 4.0
INSET = 4.0
SPREAD, MOST_SPREAD = 0.25, 90.0  # of a wide box, for wires that come from beside it


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
    (x1, y1), (x2, y2) = _ends(a, b)
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


def _ends(a: Box, b: Box) -> tuple[tuple[float, float], tuple[float, float]]:
    """Points of two boxes that a straight line may join; the wider one is met at the place across."""
    (ax, ay), (bx, by) = a.middle, b.middle
    if a.width > b.width:
        ax = _across(a, bx)
    elif b.width > a.width:
        bx = _across(b, ax)
    return (ax, ay), (bx, by)


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
