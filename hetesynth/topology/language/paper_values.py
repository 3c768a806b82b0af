"""The nested tuples of the paper form -> connections, whatever redundant parentheses surround them.

In: values like ``[( (0,1) -> (25,2) )]`` and ``[( ((0,1), (2,3)) >-> (16,1) )]``. Out: ``Ends``, groups, lists.
The figure's own ``( (0,1), (2,3) >-> (16,1) )`` means the same as with the sides in parentheses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hetesynth.model.diagnostics import Span
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.syntax import Amount, Edge, EdgeSign, Sequence, Value, Word


@dataclass(frozen=True, slots=True)
class Shape:
    """How a connection is written: its sign, how many lists of GPU numbers, whether each holds one number."""

    sign: EdgeSign
    lists: int
    single: bool
    joins: str
    example: str


_ONE_LIST = "a list of GPU numbers"
SHAPES = {
    "direct": Shape("->", 2, True, "two GPU numbers", "`(0,1) -> (25,2)`"),
    "mesh": Shape("->", 1, False, _ONE_LIST, "`(0,1,2,3) -> (25,2)`"),
    "port": Shape("->", 1, False, _ONE_LIST, "`(0,1,2,3) -> (450,1)`"),
    "switch": Shape(">->", 2, False, "two lists of GPU numbers", "`((0,1),(2,3)) >-> (16,1)`"),
    "pcie": Shape(">->", 1, False, _ONE_LIST, "`(0,1) >-> (16,1)`"),
    "nic": Shape(">->", 1, False, _ONE_LIST, "`(0,1) >-> (50,1)`"),
}


@dataclass(frozen=True, slots=True)
class Rate:
    """``(25, 2, 0.7 us)``: the bandwidth of a lane, the number of lanes, the latency."""

    bandwidth: Amount
    lanes: Amount | None = None
    latency: Amount | None = None


@dataclass(frozen=True, slots=True)
class Ends:
    """One connection: the GPU numbers of its sides and its rate."""

    sides: tuple[tuple[Amount, ...], ...]
    rate: Rate
    span: Span


@dataclass(frozen=True, slots=True)
class Group:
    """``(E_g, C_g)``: the edges that share a limit, each from values to values, and the limit."""

    edges: tuple[Edge, ...]
    rate: Rate


def stripped(value: Value) -> Value:
    """``value`` without parentheses around a single value."""
    while isinstance(value, Sequence) and len(value.items) == 1 and not isinstance(value.items[0], Edge):
        value = value.items[0]
    return value


def words(value: Value) -> tuple[Word, ...] | None:
    """The words of ``(node1, node2)``; None when it is something else."""
    value = stripped(value)
    items = value.items if isinstance(value, Sequence) else (value,)
    words = tuple(item for item in items if isinstance(item, Word))
    return words if len(words) == len(items) else None


def connections(value: Value, connection: str, shape: Shape, findings: Findings) -> Iterator[Ends]:
    """The connections in ``value``; what cannot be read as one is a finding."""
    for prefix, edge in _edges(value, connection, shape, findings):
        if edge.sign != shape.sign:
            message = f"a {connection} connection is not written with `{edge.sign}`"
            findings.add("HS221", edge.span, message, f"write it like {shape.example}")
            continue
        sides = _sides((*prefix, edge.left), shape)
        rate = rate_of(edge.right)
        if sides is None:
            message = f"a {connection} connection joins {shape.joins}"
            findings.add("HS221", edge.span, message, f"as in {shape.example}")
        elif rate is None:
            message = "right of the arrow stands (bandwidth, number of links) or (bandwidth, number, latency)"
            findings.add("HS221", edge.span, message, f"as in {shape.example}")
        else:
            yield Ends(sides, rate, edge.span)


def _edges(
    value: Value | Edge, connection: str, shape: Shape, findings: Findings
) -> Iterator[tuple[tuple[Value, ...], Edge]]:
    """Every edge with the values that stand before it in the same parentheses."""
    if isinstance(value, Edge):
        yield (), value
        return
    items = value.items if isinstance(value, Sequence) else ()
    if items and isinstance(items[-1], Edge) and not any(_has_edge(item) for item in items[:-1]):
        yield tuple(item for item in items[:-1] if not isinstance(item, Edge)), items[-1]
        return
    if not isinstance(value, Sequence) or not all(_has_edge(item) for item in items):
        message = f"this is no {connection} connection"
        findings.add("HS221", value.span, message, f"write it like {shape.example}")
        return
    for item in items:
        yield from _edges(item, connection, shape, findings)


def _has_edge(value: Value | Edge) -> bool:
    if isinstance(value, Edge):
        return True
    return isinstance(value, Sequence) and any(_has_edge(item) for item in value.items)


def _sides(values: tuple[Value, ...], shape: Shape) -> tuple[tuple[Amount, ...], ...] | None:
    """The lists of ``shape`` from ``A, B`` or from ``(A, B)``; None when they are others."""
    if shape.lists == 1:
        lists = [numbers(value) for value in values]
        flat = tuple(number for side in lists if side is not None for number in side)
        return (flat,) if flat and None not in lists else None
    if len(values) == 1:
        inner = stripped(values[0])
        if not isinstance(inner, Sequence):
            return None
        values = tuple(item for item in inner.items if not isinstance(item, Edge))
    sides = [side for side in map(numbers, values) if side and (len(side) == 1 or not shape.single)]
    return tuple(sides) if len(sides) == len(values) == shape.lists else None


def numbers(value: Value) -> tuple[Amount, ...] | None:
    """The GPU numbers of ``(0,1,2)``; None when it is something else."""
    value = stripped(value)
    items = value.items if isinstance(value, Sequence) else (value,)
    numbers = tuple(item for item in map(_item, items) if item is not None)
    return numbers if len(numbers) == len(items) else None


def _item(value: Value | Edge) -> Amount | None:
    """A GPU number: a short whole number without a unit."""
    value = value if isinstance(value, Edge) else stripped(value)
    if isinstance(value, Amount) and not value.unit and re.fullmatch(r"\d{1,6}", value.number):
        return Amount(str(int(value.number)), "", value.span)
    return None


def rate_of(value: Value) -> Rate | None:
    """``(25, 2, 0.7)`` as 25 GB/s, 2 lanes and 0.7 us; units may be written. None when it is something else."""
    value = stripped(value)
    items = value.items if isinstance(value, Sequence) else (value,)
    amounts = [item for item in items if isinstance(item, Amount)]
    if len(amounts) != len(items) or not 1 <= len(amounts) <= 3:
        return None
    bandwidth = _with_unit(amounts[0], "GB/s")
    latency = _with_unit(amounts[2], "us") if len(amounts) == 3 else None
    return Rate(bandwidth, amounts[1] if len(amounts) > 1 else None, latency)


def latency_of(value: Value) -> Amount | None:
    """``0.7`` as 0.7 us; a unit may be written. None when it is something else."""
    value = stripped(value)
    return _with_unit(value, "us") if isinstance(value, Amount) else None


def _with_unit(amount: Amount, unit: str) -> Amount:
    return amount if amount.unit else Amount(amount.number, unit, amount.span)


def group_of(value: Value) -> Group | None:
    """``([(0,1) -> (2,3), ...], (48,1))`` as edges and a limit; None when it is something else."""
    value = stripped(value)
    items = value.items if isinstance(value, Sequence) else ()
    edges = tuple(edge for item in items[:-1] for edge in _plain_edges(item))
    last = items[-1] if items else None
    rate = None if last is None or isinstance(last, Edge) else rate_of(last)
    readable = all(isinstance(item, (Edge, Sequence)) and _has_edge(item) for item in items[:-1])
    if not edges or not readable or rate is None or rate.latency is not None:
        return None
    return Group(edges, rate) if all(edge.sign == "->" for edge in edges) else None


def _plain_edges(value: Value | Edge) -> Iterator[Edge]:
    if isinstance(value, Edge):
        yield value
    elif isinstance(value, Sequence):
        for item in value.items:
            yield from _plain_edges(item)
