"""What stands behind a node or an internode -> its connections, with rate, latency and kind each.

In: the statements by name. Out: ``Connection`` values in the order written. The latency of an entry counts, not
the one that ``latency`` states for all connections of its sort. Knows nothing of hardware.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from collections.abc import Mapping as Table
from dataclasses import dataclass, replace

from hetesynth.topology.language import paper_values
from hetesynth.topology.language.findings import Findings, did_you_mean
from hetesynth.topology.language.paper_values import SHAPES, Ends
from hetesynth.topology.language.syntax import Define, Entry, Mapping, Property, Word

IN_A_NODE = {
    "direct": "direct",
    "mesh": "direct",
    "port": "switch",
    "switch": "switch",
    "pcie": "pcie",
    "nic": "net",
}
_WORK_OF_A_CONNECTION = 128  # in names matched: what reading one takes
BETWEEN_NODES = {"direct": "direct", "switch": "net"}


@dataclass(frozen=True, slots=True)
class Connection:
    """One entry under ``direct``, ``switch`` and so on; ``number`` counts the entries of its sort."""

    sort: str
    number: int
    ends: Ends
    properties: tuple[Property, ...]


def connections_in(behind: Table[str, Define], findings: Findings) -> list[Connection]:
    """The connections inside a node."""
    return list(_connections(behind, "", IN_A_NODE, 2, findings))


def connections_between(behind: Table[str, Define], nodes: int, findings: Findings) -> list[Connection]:
    """The connections between ``nodes`` nodes."""
    return list(_connections(behind, "inter", BETWEEN_NODES, nodes, findings))


def latency_between(behind: Table[str, Define], findings: Findings) -> Property | None:
    """The latency of the switch between nodes, where one is stated."""
    return _latencies(behind.get("interlatency"), BETWEEN_NODES, findings).get("switch")


def _connections(
    behind: Table[str, Define], prefix: str, kinds: Table[str, str], lists: int, findings: Findings
) -> Iterator[Connection]:
    latency = _latencies(behind.get(f"{prefix}latency"), kinds, findings)
    kind = _kinds(behind.get(f"{prefix}linktype"), kinds, findings)
    numbers: Counter[str] = Counter()
    for entry in entries(behind.get(f"{prefix}bandwidth"), kinds, findings):
        sort = entry.key.text
        shape = SHAPES[sort]
        if sort == "switch" and lists > 2:
            shape = replace(shape, lists=lists, joins=f"{lists} lists of GPU numbers, one of each node")
        elif sort == "direct" and lists > 2:
            message = "`direct` joins GPUs of two nodes"
            findings.add("HS221", entry.key.span, message, "give the two nodes an `internode` of their own")
            continue
        for ends in paper_values.connections(entry.value, sort, shape, findings):
            findings.spend(_WORK_OF_A_CONNECTION, ends.span)
            stated = (
                _rate(ends),
                kind.get(sort, Property("kind", ends.span, words=(Word(kinds[sort], ends.span),))),
            )
            own = ends.rate.latency
            alpha = latency.get(sort) if own is None else Property("latency", own.span, amount=own)
            yield Connection(sort, numbers[sort], ends, stated if alpha is None else (*stated, alpha))
            numbers[sort] += 1


def _rate(ends: Ends) -> Property:
    rate = ends.rate
    return Property("bandwidth", rate.bandwidth.span, amount=rate.bandwidth, lanes=rate.lanes)


def entries(define: Define | None, keys: Table[str, str], findings: Findings) -> Iterator[Entry]:
    """The entries of a mapping whose keys are among ``keys``, each once; others are findings."""
    if define is None:
        return
    if not isinstance(define.value, Mapping):
        shown = ", ".join(f"{key} => ..." for key in list(keys)[:2])
        message = f"`{define.name.text}` takes a mapping"
        findings.add("HS221", define.name.span, message, f"write it like `{{{shown}}}`")
        return
    seen: set[str] = set()
    for entry in define.value.entries:
        key = entry.key.text
        if key not in keys:
            *first, last = (f"`{name}`" for name in keys)
            help_ = did_you_mean(key, keys)
            message = f"`{define.name.text}` maps {', '.join(first)}{' or ' if first else ''}{last}"
            findings.add("HS220", entry.key.span, message, help_)
        elif key in seen and not define.name.text.endswith("bandwidth"):
            findings.add("HS203", entry.key.span, f"`{key}` is given twice", "keep one of them")
        else:
            seen.add(key)
            yield entry


def _latencies(define: Define | None, keys: Table[str, str], findings: Findings) -> dict[str, Property]:
    latencies: dict[str, Property] = {}
    for entry in entries(define, keys, findings):
        amount = paper_values.latency_of(entry.value)
        if amount is None:
            help_ = "write it like `{direct => 0.7 us, switch => 1.3 us}`"
            findings.add("HS221", entry.key.span, "a latency is a time", help_)
        else:
            latencies[entry.key.text] = Property("latency", entry.key.span, amount=amount)
    return latencies


def _kinds(define: Define | None, keys: Table[str, str], findings: Findings) -> dict[str, Property]:
    kinds: dict[str, Property] = {}
    for entry in entries(define, keys, findings):
        value = paper_values.stripped(entry.value)
        if isinstance(value, Word):
            kinds[entry.key.text] = Property("kind", entry.key.span, words=(value,))
        else:
            help_ = "write it like `{direct => nvlink, switch => pcie}`"
            findings.add("HS221", entry.key.span, "a link type is a word", help_)
    return kinds
