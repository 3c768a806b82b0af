"""The nested tuples of the paper form -> connections, whatever redundant parentheses surround them.

In: values like ``[( (0,1) -> (25,2) )]`` and ``[( ((0,1), (2,3)) >-> (16,1) )]``. Out: ``Ends``.
The figure's own ``( (0,1), (2,3) >-> (16,1) )`` means the same as with the sides in parentheses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hetesynth.diagnostics import Span
from hetesynth.frontend.findings import Findings
from hetesynth.frontend.syntax import Amount, Edge, Sequence, Value, Word

_EXAMPLE = {"direct": "`(0,1) -> (25,2)`", "switch": "`((0,1),(2,3)) >-> (16,1)`"}


@dataclass(frozen=True, slots=True)
class Ends:
    """One connection: the GPU numbers of its two sides, the bandwidth of a lane, the number of lanes."""

    sides: tuple[tuple[Amount, ...], tuple[Amount, ...]]
    bandwidth: Amount
    lanes: Amount | None
    span: Span


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


def connections(value: Value, connection: str, findings: Findings) -> Iterator[Ends]:
    """The connections in ``value``; what cannot be read as one is a finding. ``connection``: direct or switch."""
    for prefix, edge in _edges(value, connection, findings):
        if edge.sign != ("->" if connection == "direct" else ">->"):
            message = f"a {connection} connection is not written with `{edge.sign}`"
            findings.add("HS221", edge.span, message, f"write it like {_EXAMPLE[connection]}")
            continue
        sides = _sides((*prefix, edge.left))
        rate = _rate(edge.right)
        if sides is None or (connection == "direct" and not all(len(side) == 1 for side in sides)):
            what = "two GPU numbers" if connection == "direct" else "two lists of GPU numbers"
            findings.add(
                "HS221", edge.span, f"a {connection} connection joins {what}", f"as in {_EXAMPLE[connection]}"
            )
        elif rate is None:
            message = "right of the arrow stands (bandwidth, number of links)"
            findings.add("HS221", edge.span, message, f"as in {_EXAMPLE[connection]}")
        else:
            yield Ends(sides, rate[0], rate[1], edge.span)


def _edges(value: Value | Edge, connection: str, findings: Findings) -> Iterator[tuple[tuple[Value, ...], Edge]]:
    """Every edge with the values that stand before it in the same parentheses."""
    if isinstance(value, Edge):
        yield (), value
        return
    items = value.items if isinstance(value, Sequence) else ()
    if items and isinstance(items[-1], Edge) and not any(_has_edge(item) for item in items[:-1]):
        yield tuple(item for item in items[:-1] if not isinstance(item, Edge)), items[-1]
        return
    if not isinstance(value, Sequence) or not all(_has_edge(item) for item in items):
        findings.add(
            "HS221", value.span, f"this is no {connection} connection", f"write it like {_EXAMPLE[connection]}"
        )
        return
    for item in items:
        yield from _edges(item, connection, findings)


def _has_edge(value: Value | Edge) -> bool:
    if isinstance(value, Edge):
        return True
    return isinstance(value, Sequence) and any(_has_edge(item) for item in value.items)


def _sides(values: tuple[Value, ...]) -> tuple[tuple[Amount, ...], tuple[Amount, ...]] | None:
    """Two sides from ``A, B`` or from ``(A, B)``."""
    if len(values) == 1:
        inner = stripped(values[0])
        if not isinstance(inner, Sequence):
            return None
        values = tuple(item for item in inner.items if not isinstance(item, Edge))
    if len(values) != 2:
        return None
    left, right = _numbers(values[0]), _numbers(values[1])
    return (left, right) if left and right else None


def _numbers(value: Value) -> tuple[Amount, ...] | None:
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


def _rate(value: Value) -> tuple[Amount, Amount | None] | None:
    """``(25, 2)`` as 25 GB/s and 2 lanes; a unit may be written."""
    value = stripped(value)
    items = value.items if isinstance(value, Sequence) else (value,)
    amounts = [item for item in items if isinstance(item, Amount)]
    if len(amounts) != len(items) or not 1 <= len(amounts) <= 2:
        return None
    bandwidth = amounts[0]
    if not bandwidth.unit:
        bandwidth = Amount(bandwidth.number, "GB/s", bandwidth.span)
    return bandwidth, amounts[1] if len(amounts) == 2 else None
