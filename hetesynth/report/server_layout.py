"""One server: rows of boxes from the network inwards: NICs, CPUs, PCIe switches and buses, GPUs, their switches.

GPUs that are joined directly and by nothing else stand in a shape of their own; beside NICs and switches they
stand in a row and their connections are arcs below it.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from hetesynth.model.topology import Topology, VertexKind


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


PITCH, PAD, BETWEEN, STAGGER = 40.0, 12.0, 24.0, 42.0
GPU, NIC, PART, BAR = (30.0, 24.0), (30.0, 15.0), (34.0, 15.0), 20.0
END = (18.0, 12.0)  # of a bus
WITH_BUSES = 54.0  # from GPU to GPU where buses are above them
SPACE = 4.0
WRAP = 44.0  # round a grid: for the connections of its ends
ROW_OF_GPUS, ROW_OF_JOINED = 8, 16  # more stand in two rows, shifted against each other
ARC, ARC_STEP = 14.0, 9.0
OVER: Mapping[VertexKind, int] = {"pcie": 1, "numa": 2, "cpu": 3}  # what is joined to a lower one stands over it

Pairs = frozenset[tuple[int, int]]  # of GPUs 0 to n - 1, each with the smaller first
Points = list[tuple[float, float]]

GRID_PITCH = 74.0
SQUARE = 150.0
LEAST_RADIUS, ROUND_PITCH = 50.0, 46.0
TOGETHER = 0.62  # of the usual distance, for two GPUs of one module in a circle
LEAST_GRID = 6


def shape(count: int, pairs: Pairs, modules: Pairs, columns: int | None) -> Points:
    """Two squares, a grid of ``columns``, else a circle; ``modules`` are drawn close together."""
    squares = two_squares(count, pairs)
    if squares is not None:  # the second behind the first, right and up by parts that keep all lines off all boxes
        points: Points = [(0.0, 0.0)] * 8
        corners = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0))
        for four, (right, down) in zip(squares, ((0.0, 0.25), (0.5, 0.0)), strict=True):
            for k, (x, y) in zip(four, corners, strict=True):
                points[k] = (SQUARE * (x + right), SQUARE * (y + down))
        return points
    if columns is not None:
        return [(GRID_PITCH * (k % columns), GRID_PITCH * (k // columns)) for k in range(count)]
    # Clockwise from the left of the top.
    steps = [TOGETHER if (k, k + 1) in modules else 1.0 for k in range(count)]
    around = sum(steps)
    radius = max(LEAST_RADIUS, count * ROUND_PITCH / (2 * math.pi) * (1.35 if modules else 1.0))
    points, at = [], -0.5 * steps[0]
    for step in steps:
        angle = 2 * math.pi * at / around
        points.append((radius * (1 + math.sin(angle)), radius * (1 - math.cos(angle))))
        at += step
    return points


def two_squares(count: int, pairs: Pairs) -> tuple[Sequence[int], Sequence[int]] | None:
    """Two sets of four GPUs, all joined inside, and each joined to its partner in the other; or None."""
    if count != 8 or len(pairs) != 16:
        return None
    for rest in combinations(range(1, 8), 3):
        one = (0, *rest)
        other = [k for k in range(8) if k not in one]
        partner = {a: b for a in one for b in other if (min(a, b), max(a, b)) in pairs}
        inside = all(pair in pairs for four in (one, other) for pair in combinations(four, 2))
        if inside and sorted(partner.values()) == other:  # the other four of sixteen pairs
            return one, [partner[a] for a in one]
    return None


def grid_columns(count: int, pairs: Pairs) -> int | None:
    """In how many columns every connection joins neighbours or the two ends of a line; None: in no grid."""
    divisors = [c for c in range(2, count // 2 + 1) if count % c == 0 and count >= LEAST_GRID and pairs]
    for columns in sorted(divisors, key=lambda c: (abs(c - math.sqrt(count)), -c)):
        steps = [(abs(a // columns - b // columns), abs(a % columns - b % columns)) for a, b in pairs]
        lines = {(0, 1), (0, columns - 1), (1, 0), (count // columns - 1, 0)}
        if all(step in lines for step in steps):
            return columns
    return None


@dataclass(slots=True)
class Block:
    """A server at the origin, captions not counted. ``arcs``: how deep connections of GPUs of a row hang."""

    width: float
    height: float
    places: dict[int, Box]
    arcs: dict[tuple[int, int], float] = field(default_factory=dict)


@dataclass(slots=True)
class _Part:
    """A switch, or a bus with its ends; ``x`` is its middle."""

    ends: list[int]
    over: int = 0  # as in ``OVER``; 0: by what it joins alone
    level: int = 0
    x: float = 0.0
    width: float = PART[0]
    height: float = PART[1]
    far_below: bool = False


def server_block(topology: Topology, inside: Sequence[int], joined: Mapping[int, set[int]]) -> Block:
    """The server of the vertices ``inside``; ``joined[i]`` are the neighbours of i in the whole cluster."""
    gpus = [i for i in inside if i < topology.ranks]
    nics = [i for i in inside if topology.vertices[i].kind == "nic" and joined[i]]
    idle = [i for i in inside if topology.vertices[i].kind == "nic" and not joined[i]]
    ends: dict[str, list[int]] = defaultdict(list)  # switches one by one, the ends of a bus together
    for i in inside:
        if i not in {*gpus, *nics, *idle}:
            ends[re.sub(r"(\.(fwd|rev))?\.(in|out)$", "", topology.vertices[i].name)].append(i)
    parts = [_Part(several, OVER.get(topology.vertices[several[0]].kind, 0)) for several in ends.values()]
    lower = [p for p in parts if all(joined[e] <= {*gpus, *p.ends} for e in p.ends)]
    upper = [p for p in parts if p not in lower]
    order = {rank: k for k, rank in enumerate(gpus)}
    pairs = frozenset((order[a], order[b]) for a in gpus for b in joined[a] if b in order and order[a] < order[b])
    alone = not upper and not lower and (not nics or two_squares(len(gpus), pairs) is not None)
    leaving = any(not joined[i] <= set(inside) for i in gpus)  # wires from GPUs straight out of the server
    if pairs and alone:
        return _shaped(gpus, [*nics, *idle], joined, pairs, _modules(topology, order))
    if not upper and not pairs and all(joined[i] <= set(gpus) for i in nics) and leaving:
        return _Rows(gpus, [], upper, lower, joined, pairs, under=[*nics, *idle]).block()
    return _Rows(gpus, [*nics, *idle], upper, lower, joined, pairs).block()


def _modules(topology: Topology, order: Mapping[int, int]) -> Pairs:
    """Neighbours in number that have more lanes between them than with any other, where all GPUs have such one."""
    lanes: dict[tuple[int, int], int] = defaultdict(int)
    for wire in topology.wires:
        if wire.src in order and wire.dst in order:
            lanes[order[wire.src], order[wire.dst]] += wire.lanes
    modules = [(k, k + 1) for k in range(0, len(order) - 1, 2)]
    for k, partner in (*modules, *((b, a) for a, b in modules)):
        others = [n for (a, b), n in lanes.items() if a == k and b != partner]
        if lanes.get((k, partner), 0) <= max(others, default=0):
            return frozenset()
    return frozenset(modules) if len(order) % 2 == 0 else frozenset()


def _shaped(
    gpus: Sequence[int], nics: Sequence[int], joined: Mapping[int, set[int]], pairs: Pairs, modules: Pairs
) -> Block:
    """GPUs in a shape of their own; NICs in a row above it, each over the GPUs that use it."""
    columns = grid_columns(len(gpus), pairs)
    points = shape(len(gpus), pairs, modules, columns)
    margin = WRAP if columns else 0.0
    width, height = GPU
    wide = max(x for x, _ in points) + width + 2 * margin
    inner = max(wide, 3 * PITCH, len(nics) * (NIC[0] + SPACE))
    left = (inner - wide) / 2 + margin
    x = {i: left + points[k][0] + width / 2 for k, i in enumerate(gpus)}
    near = [[x[n] for n in sorted(joined[i]) if n in x] for i in nics]
    middles = _apart([sum(xs) / len(xs) if xs else inner / 2 for xs in near], inner)
    places = {i: _around(middle, PAD, NIC) for i, middle in zip(nics, middles, strict=True)}
    y = PAD + margin + (NIC[1] + BETWEEN if nics else 0)
    for k, i in enumerate(gpus):
        places[i] = _around(x[i], y + points[k][1], GPU)
    return Block(inner + 2 * PAD, y + max(down for _, down in points) + height + margin + PAD, places)


@dataclass(slots=True)
class _Rows:
    """A server in rows. First every box gets its place in its row, then the rows their height."""

    gpus: Sequence[int]
    nics: Sequence[int]
    upper: list[_Part]
    lower: list[_Part]
    joined: Mapping[int, set[int]]
    pairs: Pairs
    x: dict[int, float] = field(default_factory=dict)
    under: Sequence[int] = ()  # NICs on the far side of the GPUs

    def block(self) -> Block:
        """The boxes."""
        buses = [p for p in self.upper if len(p.ends) > 1]
        pitch = WITH_BUSES if buses else PITCH
        # GPUs stand in two rows: not where wires of their own lead away from many of them.
        mine = {*self.gpus, *self.nics, *(e for p in (*self.upper, *self.lower) for e in p.ends)}
        leaving = self.pairs or any(not self.joined[i] <= mine for i in self.gpus)
        two = len(self.gpus) > (ROW_OF_JOINED if leaving else ROW_OF_GPUS)
        columns = -(-len(self.gpus) // 2) if two else len(self.gpus)
        inner = max(
            pitch * (len(self.gpus) / 2 + 0.75 if two else len(self.gpus)),
            3 * PITCH,
            max(map(len, (self.nics, self.under))) * (NIC[0] + SPACE),
            sum(p.width + SPACE for p in self.upper if len(p.ends) == 1),
            len(buses) * (2 * (END[0] + 2) + SPACE),
        )
        left = (inner - pitch * (columns + (0.5 if two else 0.0))) / 2
        for k, i in enumerate(self.gpus):
            column, row = divmod(k, 2) if two else (k, 0)
            self.x[i] = left + pitch * (column + 0.5 + 0.5 * row)
        levels = self._levels()
        for number, level in enumerate(sorted(levels)):  # for the NICs that are joined there
            self._place(levels[level], inner, wide=number == 0)
        for nics in (self.nics, self.under):
            nic_x = _apart([self._mean([i]) or inner / 2 for i in nics], inner)
            self.x.update(zip(nics, nic_x, strict=True))
        aside = END[0] / 2 + 2 if buses else 0.0
        for end in (e for level in sorted(levels)[1:] for p in levels[level] for e in p.ends):
            del self.x[end]
        for level in sorted(levels)[1:]:
            self._place(levels[level], inner, wide=False)
            for part in levels[level]:
                others = [i for i in self.nics if not any(i in self.joined[e] for e in part.ends)]
                lines = [self.x[i] + away for i in others for away in (-aside, aside)]
                part.x = _free(part.x, part.width, lines, inner)
        return self._stacked(inner, levels, two)

    def _levels(self) -> dict[int, list[_Part]]:
        """1 for what joins GPUs or NICs, 2 for what joins level 1, and so on."""
        of = {end: part for part in self.upper for end in part.ends}
        near = {*self.gpus, *self.nics}
        for part in self.upper:
            around = {n for e in part.ends for n in self.joined[e]} - set(part.ends)
            part.level = 1 if around & near or not around & set(of) else 0
        level = 1
        while any(p.level == 0 for p in self.upper):
            at = {e for p in self.upper if p.level == level for e in p.ends}
            nexts = [p for p in self.upper if p.level == 0 and any(self.joined[e] & at for e in p.ends)]
            level += 1
            for part in nexts or [p for p in self.upper if p.level == 0]:
                part.level = level
        for part in sorted(self.upper, key=lambda p: p.over):
            beside = [of[n] for e in part.ends for n in self.joined[e] if n in of]
            part.level = max([part.level, *(p.level + 1 for p in beside if 0 < p.over < part.over)])
        levels: dict[int, list[_Part]] = defaultdict(list)
        for part in self.upper:
            levels[part.level].append(part)
        for part in self.upper:  # whether nothing at the far side of a bus is above it
            far = {n for e in part.ends[1:3] for n in self.joined[e]} - set(part.ends)
            above = any(n in self.nics or (n in of and of[n].level >= part.level) for n in far)
            part.far_below = len(part.ends) == 4 and not above
        return dict(levels)

    def _mean(self, ends: Sequence[int]) -> float | None:
        near = [self.x[n] for e in ends for n in sorted(self.joined[e]) if n in self.x and n not in ends]
        return sum(near) / len(near) if near else None

    def _place(self, parts: list[_Part], inner: float, *, wide: bool) -> None:
        """The middles and widths of one row; a switch of neighbouring GPUs spans them."""
        for part in parts:
            part.x = self._mean(part.ends) or inner / 2
            below = [self.x[n] for e in part.ends for n in self.joined[e] if n in self.x]
            if len(part.ends) > 1:
                columns = 2 if len(part.ends) == 4 and not part.far_below else len(part.ends)
                part.width = columns * (END[0] + 2) - 2
                part.height = 2 * END[1] + BETWEEN if columns < len(part.ends) else END[1]
            elif wide and below:
                part.width = max(PART[0], max(below) - min(below) + GPU[0])
        if sum(p.width + SPACE for p in parts) > inner + SPACE:
            share = inner / len(parts) - SPACE
            for part in parts:
                part.width = min(part.width, share) if len(part.ends) == 1 else part.width
        middles = _spread([(p.x, p.width) for p in parts], inner)
        for part, x in zip(parts, middles, strict=True):
            part.x = x
            self.x.update(dict.fromkeys(part.ends, x))

    def _stacked(self, inner: float, levels: Mapping[int, list[_Part]], two: bool) -> Block:
        places: dict[int, Box] = {}
        y = PAD
        for i in self.nics:
            places[i] = _around(self.x[i], y, NIC)
        y += NIC[1] + BETWEEN if self.nics else 0
        for level in sorted(levels, reverse=True):
            for part in levels[level]:
                if len(part.ends) == 1:
                    places[part.ends[0]] = _around(part.x, y, (part.width, part.height))
                    continue
                step, left = END[0] + 2, part.x - part.width / 2 + END[0] / 2
                order = [part.ends[k] for k in (0, 3, 1, 2)] if len(part.ends) == 4 else part.ends
                spots = [(left + k * step, y) for k in range(len(order))]  # the ends of a bus: in a row, or
                if len(part.ends) == 4 and not part.far_below:  # near ends below far ends
                    down = y + END[1] + BETWEEN
                    spots = [(left, down), (left + step, down), (left, y), (left + step, y)]
                places.update({end: _around(x, top, END) for end, (x, top) in zip(order, spots, strict=True)})
            y += max(p.height for p in levels[level]) + BETWEEN
        for k, i in enumerate(self.gpus):
            places[i] = _around(self.x[i], y + (STAGGER * (k % 2) if two else 0), GPU)
        y += GPU[1] + (STAGGER if two else 0)
        arcs: dict[tuple[int, int], float] = {}
        if not two:
            deep = {(a, b): ARC + ARC_STEP * (b - a) for a, b in self.pairs if b - a > 1}
            arcs = {(self.gpus[a], self.gpus[b]): 2 * depth for (a, b), depth in deep.items()}
        y += max(arcs.values(), default=0) / 2
        for i in self.under:
            places[i] = _around(self.x[i], y + BETWEEN, NIC)
        y += NIC[1] + BETWEEN if self.under else 0
        if self.lower:
            y += BETWEEN
            ends = [end for part in self.lower for end in part.ends]
            width = (inner - SPACE * (len(ends) - 1)) / len(ends)
            for k, end in enumerate(ends):
                places[end] = Box(PAD + k * (width + SPACE), y, width, BAR)
            y += BAR
        return Block(inner + 2 * PAD, y + PAD, places, arcs)


def _around(x: float, y: float, size: tuple[float, float]) -> Box:
    return Box(PAD + x - size[0] / 2, y, *size)


def _apart(middles: Sequence[float], inner: float) -> list[float]:
    """NICs at ``middles``; those with the same middle stand on both sides of it."""
    alike: dict[float, list[int]] = defaultdict(list)
    for k, x in enumerate(middles):
        alike[round(x, 3)].append(k)
    wishes = list(middles)
    for several in alike.values():
        for n, k in enumerate(several):
            wishes[k] += (n - (len(several) - 1) / 2) * (NIC[0] + SPACE)
    return _spread([(x, NIC[0]) for x in wishes], inner)


def _spread(boxes: Sequence[tuple[float, float]], inner: float) -> list[float]:
    """Middles for ``boxes`` (middle, width), moved so that all are in ``inner`` with ``SPACE`` between them."""
    order = sorted(range(len(boxes)), key=lambda k: (boxes[k][0], k))
    middles = [x for x, _ in boxes]
    edge = 0.0
    for k in order:
        middles[k] = max(middles[k], edge + boxes[k][1] / 2)
        edge = middles[k] + boxes[k][1] / 2 + SPACE
    edge = inner
    for k in reversed(order):
        middles[k] = min(middles[k], edge - boxes[k][1] / 2)
        edge = middles[k] - boxes[k][1] / 2 - SPACE
    return middles


def _free(x: float, width: float, lines: Sequence[float], inner: float) -> float:
    """The place nearest to ``x`` where no vertical line passes, else ``x``."""
    for away in range(0, int(inner), 2):
        for middle in (x - away, x + away):
            inside = width / 2 <= middle <= inner - width / 2
            if inside and all(abs(middle - line) > width / 2 + SPACE for line in lines):
                return middle
    return x
