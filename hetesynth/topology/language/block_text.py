"""Syntax tree -> text in the block form, for what the paper form is lowered to.

In: a ``File`` of node types and a cluster, without loops and expressions. Out: its text, not yet laid out.
``comments`` are those of a node or of the cluster, by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hetesynth.topology.language.syntax import (
    Amount,
    Change,
    Cluster,
    Disable,
    Element,
    File,
    Flow,
    Gpus,
    Instance,
    Join,
    NodeType,
    Property,
    Shared,
    Word,
)

CLUSTER = ""  # the name of the comments of the cluster
_NUMBERED = re.compile(r"(.*?)(\d+)")
_KINDS = {"switch": "switch", "fabric": "net"}


def block_text(file: File, comments: Mapping[str, Sequence[str]]) -> str:
    """The text of ``file``."""
    lines: list[str] = []
    for item in file.items:
        if isinstance(item, (NodeType, Cluster)):
            is_node = isinstance(item, NodeType)
            lines += ["", *comments.get(item.name.text if is_node else CLUSTER, ())]
            lines.append(f"{'node' if is_node else 'cluster'} {item.name.text} {{")
            lines += [f"  {_statement(statement)}" for statement in item.items]
            lines.append("}")
    return "\n".join(lines).lstrip("\n") + "\n"


def _statement(item: object) -> str:
    match item:
        case Gpus():
            missing = ", ".join(amount.number for amount in item.missing)
            return f"gpus {item.count.number}" + (f" except {missing}" if missing else "")
        case Property():
            return _property(item)
        case Element():
            return _element(item)
        case Join():
            arrow = "<->" if item.both_ways and item.kind == "link" else "->"
            ends = _names(item.left) + (f" {arrow} {_names(item.right)}" if item.right else "")
            return f"{item.kind} {ends}" + (f" {_block(item.properties)}" if item.properties else "")
        case Shared():
            flows = "; ".join(_flow(flow) for flow in item.flows)
            return f"shared {item.name.text} {_amount(item.amount)}{_lanes(item.lanes)} {{ {flows} }}"
        case Change():
            return f"set {_names(item.targets)} {_block(item.properties)}"
        case Disable():
            return f"disable {_names(item.targets)}"
        case Instance():
            changes = "; ".join(_statement(override) for override in item.overrides)
            return f"instance {item.name.text} = {item.node.text}" + (f" {{ {changes} }}" if changes else "")
        case _:
            raise ValueError(f"{type(item).__name__} is not of the paper form")


def _element(item: Element) -> str:
    """An element; what has members is a bus here, of the kind that it is."""
    if not any(prop.name == "members" for prop in item.properties):
        return f"{item.kind} {item.name.text} {_block(item.properties)}"
    stated = any(prop.name == "kind" for prop in item.properties)
    kind = "" if stated or item.kind == "bus" else f"; kind {_KINDS[item.kind]}"
    return f"bus {item.name.text} {{ {'; '.join(map(_property, item.properties))}{kind} }}"


def _block(properties: Iterable[Property]) -> str:
    return f"{{ {'; '.join(map(_property, properties))} }}"


def _property(prop: Property) -> str:
    if prop.amount is not None:
        return f"{prop.name} {_amount(prop.amount)}{_lanes(prop.lanes)}"
    if prop.name == "model":
        return f'model "{prop.words[0].text}"'
    far = f" <-> {_names(prop.far)}" if prop.far else ""
    return f"{prop.name} {_names(prop.words)}{far}"


def _flow(flow: Flow) -> str:
    return f"{_names(flow.left)} {'<->' if flow.both_ways else '->'} {_names(flow.right)}"


def _amount(amount: Amount) -> str:
    return f"{amount.number} {amount.unit}".rstrip()


def _lanes(lanes: Amount | None) -> str:
    return "" if lanes is None or lanes.number == "1" else f" x {lanes.number}"


def _names(words: Sequence[Word]) -> str:
    """``gpu0, gpu1, gpu2, nic3`` as ``gpu[0-2], nic3``."""
    return ", ".join(_runs([word.text for word in words]))


def _runs(names: Sequence[str]) -> Iterator[str]:
    at = 0
    while at < len(names):
        match = _NUMBERED.fullmatch(names[at])
        end = at + 1
        while match and end < len(names) and names[end] == f"{match[1]}{int(match[2]) + end - at}":
            end += 1
        if match and end - at > 1:
            yield f"{match[1]}[{match[2]}-{int(match[2]) + end - at - 1}]"
        else:
            yield from names[at:end]
        at = end
