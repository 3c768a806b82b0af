"""A topology file -> the same cluster in the block form or JSON, or the same file in the one layout."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hetesynth.errors import HetesynthError
from hetesynth.files.atomic import write_all
from hetesynth.model.topology import Topology
from hetesynth.topology.language import paper, syntax
from hetesynth.topology.language.elaborate import topology_of
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.layout import formatted, pieces_of
from hetesynth.topology.language.parser import parse
from hetesynth.topology.language.source import STANDARD_INPUT, Source, checked_source, read_source

_BUS_KINDS = {"switch": "switch", "fabric": "net"}
FORMS = ("block", "json")
VERSION = 1


def converted(path: Path, form: str) -> str:
    """Return the file at ``path`` in ``form``, one of ``FORMS``."""
    source = read_source(path)
    if form == "json":
        return json.dumps(topology_document(topology_of(source)), indent=1) + "\n"
    return to_block(source)


def topology_document(topology: Topology) -> dict[str, Any]:
    """Return ``topology`` as JSON: bytes per second and seconds as texts, exact fractions such as `7/10`."""
    document = {"format": "hetesynth topology", "version": VERSION, **asdict(topology)}
    plain: dict[str, Any] = json.loads(json.dumps(document, default=str))
    return plain


def reformat(paths: Sequence[Path], *, check: bool) -> list[Path]:
    """Return the files that are not in the one layout; unless ``check``, rewrite them in it."""
    texts = {path: formatted(read_source(path)).encode() for path in dict.fromkeys(paths)}
    changed = {path: text for path, text in texts.items() if path.read_bytes() != text}
    if not check:
        write_all(changed)
    return list(changed)


def reformatted_input() -> tuple[str, bool]:
    """Return the topology on standard input in the one layout, and True if it had another."""
    source = read_source(STANDARD_INPUT)
    text = formatted(source)
    return text, text != (source.written or source.text)


def to_block(source: Source) -> str:
    """Return ``source`` in the block form and its layout. Raise HS250 if the block form gives other rates."""
    written = parse(source)
    if not any(isinstance(item, syntax.Define) for item in written.items):
        return formatted(source)
    pieces, last = pieces_of(source)
    lines = [comment.text for piece in pieces for comment in piece.comments] + [comment.text for comment in last]
    for item in paper.lowered(written, Findings()).items:
        if isinstance(item, (syntax.NodeType, syntax.Cluster)):
            lines.append(f"{'node' if isinstance(item, syntax.NodeType) else 'cluster'} {item.name.text} {{")
            lines += [*(f"  {_statement(statement)}" for statement in item.items), "}"]
    laid_out = formatted(checked_source("\n".join(lines), source.name))
    if _meaning(topology_of(checked_source(laid_out, source.name))) != _meaning(topology_of(source)):
        message = f"{source.name} cannot be said in the block form: some links would have other rates"
        help_ = "keep the form it has, or convert it to json"
        raise HetesynthError(message, code="HS250", help=help_, exit_code=1)
    return laid_out


def _meaning(topology: Topology) -> object:
    """Return what ``topology`` says, without its parts' kinds: links with rates, groups, GPUs by server."""
    links = [(x.src, x.dst, x.kind, x.bandwidth, x.lanes, x.latency) for x in topology.links]
    gpus = topology.servers, topology.models, topology.throughputs
    return gpus, sorted(links), topology.groups, len(topology.wires), topology.chunk_bytes


def _statement(item: object) -> str:
    """Return the block form's text of a statement that the paper form is lowered to."""
    match item:
        case syntax.Gpus():
            return f"gpus {item.count.number}"
        case syntax.Property():
            return _property(item)
        case syntax.Element():
            if not any(prop.name == "members" for prop in item.properties):
                return f"{item.kind} {item.name.text} {_block(item.properties)}"
            # what has members is a bus here, of the kind that it is
            stated = item.kind == "bus" or any(prop.name == "kind" for prop in item.properties)
            kind = "" if stated else f"; kind {_BUS_KINDS[item.kind]}"
            return f"bus {item.name.text} {{ {'; '.join(map(_property, item.properties))}{kind} }}"
        case syntax.Join():
            ends = " -> ".join(map(_names, filter(None, (item.left, item.right))))
            return f"{item.kind} {ends}" + (f" {_block(item.properties)}" if item.properties else "")
        case syntax.Shared():
            flows = "; ".join(f"{_names(flow.left)} -> {_names(flow.right)}" for flow in item.flows)
            return f"shared {item.name.text} {_amount(item.amount)}{_lanes(item.lanes)} {{ {flows} }}"
        case syntax.Change():
            return f"set {_names(item.targets)} {_block(item.properties)}"
        case syntax.Disable():
            return f"disable {_names(item.targets)}"
        case syntax.Instance():
            changes = "; ".join(_statement(override) for override in item.overrides)
            return f"instance {item.name.text} = {item.node.text}" + (f" {{ {changes} }}" if changes else "")
        case _:
            raise ValueError(f"{type(item).__name__} is not of the paper form")


def _block(properties: Iterable[syntax.Property]) -> str:
    return f"{{ {'; '.join(map(_property, properties))} }}"


def _property(prop: syntax.Property) -> str:
    if prop.amount is not None:
        return f"{prop.name} {_amount(prop.amount)}{_lanes(prop.lanes)}"
    if prop.name == "model":
        return f'model "{prop.words[0].text}"'
    far = f" <-> {_names(prop.far)}" if prop.far else ""
    return f"{prop.name} {_names(prop.words)}{far}"


def _amount(amount: syntax.Amount) -> str:
    return f"{amount.number} {amount.unit}".rstrip()


def _lanes(lanes: syntax.Amount | None) -> str:
    return "" if lanes is None or lanes.number == "1" else f" x {lanes.number}"


def _names(words: Sequence[syntax.Word]) -> str:
    return ", ".join(word.text for word in words)
