"""The values of the paper form, read: nested tuples like ``[( (0,1) -> (25,2) )]``, whatever redundant parentheses
surround them; the figure's own ``( (0,1), (2,3) >-> (16,1) )`` means the same as with the sides in parentheses.

Bandwidths without a unit are GB/s a lane and one direction, as in Figure 10, latencies without one microseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hetesynth.errors import did_you_mean
from hetesynth.model.diagnostics import Span
from hetesynth.topology.language import syntax
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.syntax import Amount, Define, Edge, Property, Value, Word

IN_A_NODE = {  # link types by the sort of a connection
    "direct": "direct",
    "mesh": "direct",
    "port": "switch",
    "switch": "switch",
    "pcie": "pcie",
    "nic": "net",
}
BETWEEN_NODES = {"direct": "direct", "switch": "net"}
_EXAMPLES = {
    "direct": "(0,1) -> (25,2)",
    "mesh": "(0,1,2,3) -> (25,2)",
    "port": "(0,1,2,3) -> (450,1)",
    "switch": "((0,1),(2,3)) >-> (16,1)",
    "pcie": "(0,1) >-> (16,1)",
    "nic": "(0,1) >-> (50,1)",
    "latency": "{direct => 0.7 us, switch => 1.3 us}",
    "linktype": "{direct => nvlink, switch => pcie}",
    "group": "{upi => ([(0,1) -> (2,3)], (48,1))}",
    "intergroup": "{core => ([(node1) -> (node2, node3.gpu0)], (10,1))}",
    "failure": "{gpu => (3)}",
    "slowdown": "{nic => 18 Gbps}` or `{nic => [(0,1) -> (18 Gbps,1)]}",
    "bandwidth": "{direct => [(0,1) -> (25,2)]}",
    "model": "define model = V100",
    "internode": "define internode = (node1, node2)",
}


@dataclass(frozen=True, slots=True)
class Rate:
    """``(25, 2, 0.7 us)``: the bandwidth of a lane, the number of lanes, the latency."""

    bandwidth: Amount
    lanes: Amount | None = None
    latency: Amount | None = None

    def properties(self) -> tuple[Property, ...]:
        """The bandwidth, and the latency if there is one."""
        bandwidth = Property("bandwidth", self.bandwidth.span, amount=self.bandwidth, lanes=self.lanes)
        return bandwidth, *([] if self.latency is None else [time_property(self.latency, self.latency.span)])


@dataclass(frozen=True, slots=True)
class Ends:
    """One connection: the GPU numbers of its sides and its rate."""

    sides: tuple[tuple[Amount, ...], ...]
    rate: Rate
    span: Span


def refuse(name: str, span: Span, findings: Findings) -> None:
    """The finding for a value of ``name``, a statement or a sort of connection, that is something else."""
    example = _EXAMPLES.get(name) or _EXAMPLES.get(name.removeprefix("inter"), f"define {name} = 2")
    findings.add("HS221", span, f"`{name}` is not written like this", f"write it like `{example}`")


def entries(define: Define | None, keys: dict[str, str], findings: Findings) -> Iterator[syntax.Entry]:
    """The entries of a mapping whose keys are among ``keys``, each once; others are findings."""
    if define is None:
        return
    if not isinstance(define.value, syntax.Mapping):
        refuse(define.name.text, define.name.span, findings)
        return
    seen: set[str] = set()
    for entry in define.value.entries:
        key = entry.key.text
        if key not in keys:
            message = f"`{define.name.text}` has no `{key[:60]}`"
            findings.add("HS220", entry.key.span, message, did_you_mean(key, keys))
        elif key in seen and not define.name.text.endswith("bandwidth"):
            findings.add("HS203", entry.key.span, f"`{key}` is given twice", "keep one of them")
        else:
            seen.add(key)
            yield entry


def ends_in(value: Value, sort: str, lists: int, findings: Findings) -> Iterator[Ends]:
    """The connections in ``value``, each of ``lists`` lists of GPU numbers; what cannot be read is a finding."""
    edges = _edges(value)
    if not edges:
        refuse(sort, value.span, findings)
    for before, edge in edges:
        values = (*before, edge.left)  # the lists from `A, B` or from `(A, B)`
        if len(values) == 1 and lists > 1:
            values = _items(values[0])
        sides = [numbers(value) or () for value in values]
        if lists == 1 and all(sides):
            sides = [tuple(number for side in sides for number in side)]
        rate = rate_of(edge.right)
        shared = sort in ("switch", "pcie", "nic")
        single = sort == "direct" and any(len(side) > 1 for side in sides)
        if rate is None or not all(sides) or len(sides) != lists or single or shared != (edge.sign == ">->"):
            refuse(sort, edge.span, findings)
        else:
            yield Ends(tuple(sides), rate, edge.span)


def _edges(value: Value | Edge) -> list[tuple[tuple[Value | Edge, ...], Edge]]:
    """Every edge with the values that stand before it in the same parentheses; none where anything else stands."""
    if isinstance(value, Edge):
        return [((), value)]
    if not isinstance(value, syntax.Sequence) or not value.items:
        return []
    inside = [_edges(item) for item in value.items]
    last = value.items[-1]
    if isinstance(last, Edge) and not any(inside[:-1]):
        return [(value.items[:-1], last)]
    return [edge for edges in inside for edge in edges] if all(inside) else []


def stripped(value: Value) -> Value:
    """``value`` without parentheses around a single value."""
    while isinstance(value, syntax.Sequence) and len(value.items) == 1 and not isinstance(value.items[0], Edge):
        value = value.items[0]
    return value


def _items(value: Value | Edge) -> tuple[Value | Edge, ...]:
    value = value if isinstance(value, Edge) else stripped(value)
    return value.items if isinstance(value, syntax.Sequence) else (value,)


def words(value: Value) -> tuple[Word, ...]:
    """The words of ``(node1, node2)``; none when it is something else."""
    items = _items(value)
    words = tuple(item for item in items if isinstance(item, Word))
    return words if len(words) == len(items) else ()


def numbers(value: Value | Edge) -> tuple[Amount, ...]:
    """The GPU numbers of ``(0,1,2)``, short and without units; none when it is something else."""
    amounts: list[Amount] = []
    for item in _items(value):
        item = item if isinstance(item, Edge) else stripped(item)
        if not isinstance(item, Amount) or item.unit or not re.fullmatch(r"\d{1,6}", item.number):
            return ()
        amounts.append(Amount(str(int(item.number)), "", item.span))
    return tuple(amounts)


def rate_of(value: Value | Edge) -> Rate | None:
    """``(25, 2, 0.7)`` as 25 GB/s, 2 lanes and 0.7 us; units may be written. None when it is something else."""
    items = _items(value)
    amounts = [item for item in items if isinstance(item, Amount)]
    if len(amounts) != len(items) or not 1 <= len(amounts) <= 3:
        return None
    lanes, latency = [*amounts[1:], None, None][:2]
    return Rate(_with_unit(amounts[0], "GB/s"), lanes, latency)


def time_property(amount: Amount, span: Span) -> Property:
    """A latency, in microseconds where no unit is written."""
    return Property("latency", span, amount=_with_unit(amount, "us"))


def _with_unit(amount: Amount, unit: str) -> Amount:
    return amount if amount.unit else Amount(amount.number, unit, amount.span)


def group_of(value: Value) -> tuple[list[Edge], Rate] | None:
    """``([(0,1) -> (2,3), ...], (48,1))``, which is (E_g, C_g): the edges that share a limit, and the limit.

    None when it is something else.
    """
    items = _items(value)
    inside = [_edges(item) for item in items[:-1]]
    edges = [edge for item in inside for _, edge in item]
    rate = rate_of(items[-1]) if items else None
    if not inside or not all(inside) or rate is None or rate.latency or any(e.sign != "->" for e in edges):
        return None
    return edges, rate
