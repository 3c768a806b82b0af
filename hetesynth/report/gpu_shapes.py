"""Shapes for GPUs that are joined directly and by nothing else: a grid, a cube of two squares, a circle.

In: how many there are and which are joined. Out: the middle of each, from the left upper corner of the shape.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

Pairs = frozenset[tuple[int, int]]  # of GPUs 0 to n - 1, each with the smaller first
Points = list[tuple[float, float]]

GRID_PITCH = 74.0
SQUARE = 150.0
LEAST_RADIUS, ROUND_PITCH = 50.0, 46.0
TOGETHER = 0.62  # of the usual distance, for two GPUs of one module in a circle
LEAST_GRID = 6


def shape(count: int, pairs: Pairs, modules: Pairs) -> Points:
    """The shape that suits: two squares, a grid, else a circle; ``modules`` are drawn close together."""
    squares = two_squares(count, pairs)
    if squares is not None:
        return _cube(squares)
    columns = grid_columns(count, pairs)
    if columns is not None:
        return [(GRID_PITCH * (k % columns), GRID_PITCH * (k // columns)) for k in range(count)]
    return _circle(count, modules)


def two_squares(count: int, pairs: Pairs) -> tuple[Sequence[int], Sequence[int]] | None:
    """Two sets of four GPUs, all joined inside, and each joined to its partner in the other; or None."""
    if count != 8 or len(pairs) != 16:
        return None
    for rest in combinations(range(1, 8), 3):
        one = (0, *rest)
        other = [k for k in range(8) if k not in one]
        between = [(a, b) for a in one for b in other if (min(a, b), max(a, b)) in pairs]
        inside = all(pair in pairs for four in (one, other) for pair in combinations(four, 2))
        if inside and len(between) == 4 and len({b for _, b in between}) == 4 == len({a for a, _ in between}):
            partner = dict(between)
            return one, [partner[a] for a in one]
    return None


def grid_columns(count: int, pairs: Pairs) -> int | None:
    """In how many columns every connection joins neighbours or the two ends of a line; None: in no grid."""
    divisors = [c for c in range(2, count // 2 + 1) if count % c == 0]
    for columns in sorted(divisors, key=lambda c: (abs(c - math.sqrt(count)), -c)):
        if count >= LEAST_GRID and pairs and all(_near(a, b, columns, count // columns) for a, b in pairs):
            return columns
    return None


def _near(a: int, b: int, columns: int, rows: int) -> bool:
    down, across = abs(a // columns - b // columns), abs(a % columns - b % columns)
    return (down == 0 and across in (1, columns - 1)) or (across == 0 and down in (1, rows - 1))


def _cube(squares: tuple[Sequence[int], Sequence[int]]) -> Points:
    """The second square behind the first, to the right and up by parts that keep all lines off all boxes."""
    points: Points = [(0.0, 0.0)] * 8
    corners = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0))
    for four, (right, down) in zip(squares, ((0.0, 0.25), (0.5, 0.0)), strict=True):
        for k, (x, y) in zip(four, corners, strict=True):
            points[k] = (SQUARE * (x + right), SQUARE * (y + down))
    return points


def _circle(count: int, modules: Pairs) -> Points:
    """Clockwise from the left of the top; two of a module stand closer."""
    steps = [TOGETHER if (k, k + 1) in modules else 1.0 for k in range(count)]
    around = sum(steps)
    radius = max(LEAST_RADIUS, count * ROUND_PITCH / (2 * math.pi) * (1.35 if modules else 1.0))
    points, at = [], -0.5 * steps[0]
    for step in steps:
        angle = 2 * math.pi * at / around
        points.append((radius * (1 + math.sin(angle)), radius * (1 - math.cos(angle))))
        at += step
    return points
