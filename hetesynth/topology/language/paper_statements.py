"""The ``define`` statements of the paper form, read: nodes and internodes with their connections.

In: ``Define`` values in the order written, whose values are nested tuples like ``[( (0,1) -> (25,2) )]``, whatever
redundant parentheses surround them; the figure's own ``( (0,1), (2,3) >-> (16,1) )`` means the same as with the
sides in parentheses. Out: ``Definitions``, ``Connection`` values, groups. Knows nothing of hardware.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from collections.abc import Mapping as Table
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hetesynth.errors import did_you_mean
from hetesynth.model.diagnostics import Span
from hetesynth.topology.language import syntax
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.syntax import Amount, Define, Edge, Property, Value, Word

_WORK_OF_A_CONNECTION = 128  # in names matched: what reading one takes

_NODE = re.compile(r"node\d{1,6}")
_OF_A_NODE = ("bandwidth", "latency", "linktype", "model", "reduce", "group", "failure", "slowdown")
_OF_ONE_NODE = ("failure", "slowdown")
_OF_AN_INTERNODE = ("interbandwidth", "interlatency", "interlinktype")
_OF_THE_CLUSTER = ("nodenum", "chunk", "intergroup")
NAMES = (*_OF_THE_CLUSTER, "node1", *_OF_A_NODE, "internode", *_OF_AN_INTERNODE)

IN_A_NODE = {  # link types by the sort of a connection
    "direct": "direct",
    "mesh": "direct",
    "port": "switch",
    "switch": "switch",
    "pcie": "pcie",
    "nic": "net",
}
BETWEEN_NODES = {"direct": "direct", "switch": "net"}

_Kept = TypeVar("_Kept")


@dataclass(frozen=True, slots=True)
class Shape:
    """How a connection is written: its sign, how many lists of GPU numbers, whether each holds one number."""

    sign: syntax.EdgeSign
    lists: int
    single: bool
    joins: str
    example: str


_ONE_LIST = "a list of GPU numbers"
_SHAPES = {
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
class Connection:
    """One entry under ``direct``, ``switch`` and so on; ``number`` counts the entries of its sort."""

    sort: str
    number: int
    ends: Ends
    properties: tuple[Property, ...]


@dataclass(slots=True)
class NodeDefinition:
    """A node: how many GPUs, or like which other node, and the statements behind it by name."""

    name: Word
    value: Value
    behind: dict[str, Define] = field(default_factory=dict)


@dataclass(slots=True)
class Internode:
    """Nodes that are joined, and the statements behind them; ``nodes`` is empty where they cannot be told."""

    name: Word
    value: Value
    behind: dict[str, Define] = field(default_factory=dict)
    nodes: tuple[Word, ...] = ()


@dataclass(slots=True)
class Definitions:
    """All statements of a file."""

    nodes: dict[str, NodeDefinition] = field(default_factory=dict)
    internodes: list[Internode] = field(default_factory=list)
    of_cluster: dict[str, Define] = field(default_factory=dict)


# --- statements by what they belong to


def gathered(defines: list[Define], findings: Findings) -> Definitions:
    """``defines`` by what they belong to: the node or internode opened last, or the cluster; names resolved.

    Nodes may be defined after what names them.
    """
    definitions = Definitions()
    node: NodeDefinition | None = None
    internode: Internode | None = None
    for define in defines:
        name, span = define.name.text, define.name.span
        if _NODE.fullmatch(name):
            node = NodeDefinition(define.name, define.value)
            _put(definitions.nodes, define, node, findings)
        elif name == "internode":
            internode = Internode(Word(f"internode{len(definitions.internodes)}", span), define.value)
            definitions.internodes.append(internode)
        elif name in _OF_THE_CLUSTER:
            _put(definitions.of_cluster, define, define, findings)
        elif name in (*_OF_A_NODE, *_OF_AN_INTERNODE):
            opened = node if name in _OF_A_NODE else internode
            if opened is not None:
                _put(opened.behind, define, define, findings)
                continue
            what = "a node (`define node1 = 4`)"
            if name in _OF_AN_INTERNODE:
                what = "an internode (`define internode = (node1, node2)`)"
            findings.add("HS221", span, f"`{name}` belongs to {what}, none is defined yet")
        else:
            help_ = did_you_mean(name, NAMES, "the names are " + ", ".join(NAMES))
            findings.add("HS220", span, f"`{name[:60]}` is not a name of the paper form", help_)
    _settle_names(definitions, findings)
    return definitions


def _settle_names(definitions: Definitions, findings: Findings) -> None:
    """``define node2 = node1``: node2 has what node1 has, but for failures, where nothing behind it says else; and
    the nodes of each internode, two different ones or more."""
    nodes = definitions.nodes
    for node in nodes.values():
        passed = {node.name.text}
        value = stripped(node.value)
        while isinstance(value, Word):
            like = nodes.get(value.text)
            if like is None:
                help_ = did_you_mean(value.text, nodes, "a node has a number of GPUs: `define node1 = 4`")
                findings.add("HS201", value.span, f"there is no node `{value.text[:60]}`", help_)
                break
            if value.text in passed:
                message = f"`{node.name.text}` is defined by itself"
                findings.add("HS221", value.span, message, "give one of the nodes a number of GPUs")
                break
            passed.add(value.text)
            inherited = {name: define for name, define in like.behind.items() if name not in _OF_ONE_NODE}
            node.behind = inherited | node.behind
            value = stripped(like.value)
        else:
            node.value = value
    for internode in definitions.internodes:
        names = words(internode.value) or ()
        seen = [word.text for word in names]
        if len(names) < 2:
            help_ = "write it like `define internode = (node1, node2)`"
            findings.add("HS221", internode.name.span, "`internode` takes two nodes or more", help_)
            continue
        for place, word in enumerate(names):
            if word.text not in nodes:
                help_ = did_you_mean(word.text, nodes, "define the node: `define node1 = 4`")
                findings.add("HS201", word.span, f"there is no node `{word.text[:60]}`", help_)
            elif word.text in seen[:place]:
                findings.add("HS218", word.span, f"`{word.text}` is joined to itself", "name each node once")
            else:
                continue
            break
        else:
            internode.nodes = names


def _put(statements: dict[str, _Kept], define: Define, value: _Kept, findings: Findings) -> None:
    if define.name.text in statements:
        findings.add("HS203", define.name.span, f"`{define.name.text}` is defined twice", "keep one of them")
    statements[define.name.text] = value


def amount_of(name: Word, value: Value, findings: Findings) -> Amount | None:
    """``value`` as a number; None, with a finding, when it is something else."""
    value = stripped(value)
    if isinstance(value, Amount):
        return value
    if not (isinstance(value, Word) and _NODE.fullmatch(name.text)):  # a likeness has its finding
        findings.add("HS221", name.span, f"`{name.text}` takes a number", "write it like `= 2`")
    return None


# --- the connections behind a node or an internode


def latencies(define: Define | None, keys: Table[str, str], findings: Findings) -> dict[str, Property]:
    """The latencies that ``define`` states for all connections of a sort."""
    stated: dict[str, Property] = {}
    for entry in entries(define, keys, findings):
        value = stripped(entry.value)
        if isinstance(value, Amount):
            stated[entry.key.text] = Property("latency", entry.key.span, amount=_with_unit(value, "us"))
        else:
            help_ = "write it like `{direct => 0.7 us, switch => 1.3 us}`"
            findings.add("HS221", entry.key.span, "a latency is a time", help_)
    return stated


def connections(behind: Table[str, Define], findings: Findings, nodes: int = 1) -> Iterator[Connection]:
    """The connections inside a node, or between ``nodes`` nodes, in the order written.

    The latency of an entry counts before that of its sort.
    """
    prefix, kinds, lists = ("", IN_A_NODE, 2) if nodes == 1 else ("inter", BETWEEN_NODES, nodes)
    latency = latencies(behind.get(f"{prefix}latency"), kinds, findings)
    kind_of: dict[str, Property] = {}
    for entry in entries(behind.get(f"{prefix}linktype"), kinds, findings):
        value = stripped(entry.value)
        if isinstance(value, Word):
            kind_of[entry.key.text] = Property("kind", entry.key.span, words=(value,))
        else:
            help_ = "write it like `{direct => nvlink, switch => pcie}`"
            findings.add("HS221", entry.key.span, "a link type is a word", help_)
    numbers_of: Counter[str] = Counter()
    for entry in entries(behind.get(f"{prefix}bandwidth"), kinds, findings):
        sort = entry.key.text
        shape = _SHAPES[sort]
        if sort == "switch" and lists > 2:
            shape = replace(shape, lists=lists, joins=f"{lists} lists of GPU numbers, one of each node")
        elif sort == "direct" and lists > 2:
            message = "`direct` joins GPUs of two nodes"
            findings.add("HS221", entry.key.span, message, "give the two nodes an `internode` of their own")
            continue
        for ends in ends_in(entry.value, sort, shape, findings):
            findings.spend(_WORK_OF_A_CONNECTION, ends.span)
            kind = kind_of.get(sort, Property("kind", ends.span, words=(Word(kinds[sort], ends.span),)))
            own = ends.rate.latency
            alpha = latency.get(sort) if own is None else Property("latency", own.span, amount=own)
            properties = (bandwidth_of(ends.rate), kind, *(() if alpha is None else (alpha,)))
            yield Connection(sort, numbers_of[sort], ends, properties)
            numbers_of[sort] += 1


def bandwidth_of(rate: Rate) -> Property:
    """``rate`` without its latency."""
    return Property("bandwidth", rate.bandwidth.span, amount=rate.bandwidth, lanes=rate.lanes)


def entries(define: Define | None, keys: Table[str, str], findings: Findings) -> Iterator[syntax.Entry]:
    """The entries of a mapping whose keys are among ``keys``, each once; others are findings."""
    if define is None:
        return
    if not isinstance(define.value, syntax.Mapping):
        shown = ", ".join(f"{key} => ..." for key in list(keys)[:2])
        message = f"`{define.name.text}` takes a mapping"
        findings.add("HS221", define.name.span, message, f"write it like `{{{shown}}}`")
        return
    seen: set[str] = set()
    for entry in define.value.entries:
        key = entry.key.text
        if key not in keys:
            *first, last = (f"`{name}`" for name in keys)
            message = f"`{define.name.text}` maps {', '.join(first)}{' or ' if first else ''}{last}"
            findings.add("HS220", entry.key.span, message, did_you_mean(key, keys))
        elif key in seen and not define.name.text.endswith("bandwidth"):
            findings.add("HS203", entry.key.span, f"`{key}` is given twice", "keep one of them")
        else:
            seen.add(key)
            yield entry


def ends_in(value: Value, connection: str, shape: Shape, findings: Findings) -> Iterator[Ends]:
    """The ends and rates of the connections in ``value``; what cannot be read as one is a finding."""
    for prefix, edge in _edges(value, connection, shape, findings):
        if edge.sign != shape.sign:
            message = f"a {connection} connection is not written with `{edge.sign}`"
            findings.add("HS221", edge.span, message, f"write it like {shape.example}")
            continue
        values = (*prefix, edge.left)  # the lists of `shape` from `A, B` or from `(A, B)`
        inner = stripped(values[0])
        if len(values) == 1 and shape.lists > 1:
            items = inner.items if isinstance(inner, syntax.Sequence) else ()
            values = tuple(item for item in items if not isinstance(item, Edge))
        lists = [numbers(value) for value in values]
        if shape.lists == 1 and None not in lists:
            lists = [tuple(number for side in lists for number in side or ())]
        sides = tuple(side for side in lists if side and (len(side) == 1 or not shape.single))
        rate = rate_of(edge.right)
        if not len(sides) == len(lists) == shape.lists:
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
    items = value.items if isinstance(value, syntax.Sequence) else ()
    if items and isinstance(items[-1], Edge) and not any(_has_edge(item) for item in items[:-1]):
        yield tuple(item for item in items[:-1] if not isinstance(item, Edge)), items[-1]
        return
    if not isinstance(value, syntax.Sequence) or not all(_has_edge(item) for item in items):
        message = f"this is no {connection} connection"
        findings.add("HS221", value.span, message, f"write it like {shape.example}")
        return
    for item in items:
        yield from _edges(item, connection, shape, findings)


def _has_edge(value: Value | Edge) -> bool:
    return isinstance(value, Edge) or (isinstance(value, syntax.Sequence) and any(map(_has_edge, value.items)))


# --- values


def stripped(value: Value) -> Value:
    """``value`` without parentheses around a single value."""
    while isinstance(value, syntax.Sequence) and len(value.items) == 1 and not isinstance(value.items[0], Edge):
        value = value.items[0]
    return value


def _items(value: Value) -> tuple[Value | Edge, ...]:
    value = stripped(value)
    return value.items if isinstance(value, syntax.Sequence) else (value,)


def words(value: Value) -> tuple[Word, ...] | None:
    """The words of ``(node1, node2)``; None when it is something else."""
    items = _items(value)
    words = tuple(item for item in items if isinstance(item, Word))
    return words if len(words) == len(items) else None


def numbers(value: Value) -> tuple[Amount, ...] | None:
    """The GPU numbers of ``(0,1,2)``, short and without units; None when it is something else."""
    amounts: list[Amount] = []
    for item in _items(value):
        item = item if isinstance(item, Edge) else stripped(item)
        if not isinstance(item, Amount) or item.unit or not re.fullmatch(r"\d{1,6}", item.number):
            return None
        amounts.append(Amount(str(int(item.number)), "", item.span))
    return tuple(amounts)


def rate_of(value: Value) -> Rate | None:
    """``(25, 2, 0.7)`` as 25 GB/s, 2 lanes and 0.7 us; units may be written. None when it is something else."""
    items = _items(value)
    amounts = [item for item in items if isinstance(item, Amount)]
    if len(amounts) != len(items) or not 1 <= len(amounts) <= 3:
        return None
    latency = _with_unit(amounts[2], "us") if len(amounts) == 3 else None
    return Rate(_with_unit(amounts[0], "GB/s"), amounts[1] if len(amounts) > 1 else None, latency)


def _with_unit(amount: Amount, unit: str) -> Amount:
    return amount if amount.unit else Amount(amount.number, unit, amount.span)


def group_of(value: Value) -> tuple[tuple[Edge, ...], Rate] | None:
    """``([(0,1) -> (2,3), ...], (48,1))``, which is (E_g, C_g): the edges that share a limit, and the limit.

    None when it is something else.
    """
    value = stripped(value)
    items = value.items if isinstance(value, syntax.Sequence) else ()
    edges = tuple(edge for item in items[:-1] for edge in _plain_edges(item))
    last = items[-1] if items else None
    rate = None if last is None or isinstance(last, Edge) else rate_of(last)
    if not edges or not all(map(_has_edge, items[:-1])) or rate is None or rate.latency is not None:
        return None
    return (edges, rate) if all(edge.sign == "->" for edge in edges) else None


def _plain_edges(value: Value | Edge) -> Iterator[Edge]:
    if isinstance(value, Edge):
        yield value
    elif isinstance(value, syntax.Sequence):
        for item in value.items:
            yield from _plain_edges(item)
