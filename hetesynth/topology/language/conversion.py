"""One form of the language -> the other, with the same meaning, or what keeps it from being said there.

In: a ``Source``. Out: text. The result is read again and compared with what the source says; where they differ, or
the other form has no words for something, ``HetesynthError`` HS250. Comments stand above the block they belong to.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from hetesynth.errors import HetesynthError
from hetesynth.model.topology import Topology
from hetesynth.topology.language import paper, syntax
from hetesynth.topology.language.elaborate import topology_of
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.layout import formatted, pieces_of
from hetesynth.topology.language.paper_text import paper_text
from hetesynth.topology.language.parser import parse
from hetesynth.topology.language.source import Source, checked_source

_NODE = re.compile(r"node\d+")
_OF_THE_CLUSTER = re.compile(r"chunk|inter\w+|nodenum")
_NUMBERED = re.compile(r"(.*?)(\d+)")
_CLUSTER = ""  # the name of the comments of the cluster
_BUS_KINDS = {"switch": "switch", "fabric": "net"}


def to_block(source: Source) -> str:
    """``source`` in the block form; what is in it already, in its layout."""
    written = parse(source)
    if not any(isinstance(item, syntax.Define) for item in written.items):
        return formatted(source)
    topology = topology_of(source)
    pieces, last = pieces_of(source)
    owner = node = _CLUSTER
    lines: list[str] = []  # first the comments at the top
    comments: dict[str, list[str]] = defaultdict(list)  # the others by the node whose statements they stand at
    for index, piece in enumerate(pieces):
        if piece.type != "DEFINE":
            comments[owner] += [comment.text for comment in piece.comments]
            continue
        comments[owner] += [comment.text for comment in piece.comments if comment.trailing and index]
        name = pieces[index + 1].text
        node = name if _NODE.fullmatch(name) else node
        owner = _CLUSTER if _OF_THE_CLUSTER.match(name) else node
        own = [comment.text for comment in piece.comments if not (comment.trailing and index)]
        (comments[owner] if index else lines).extend(own)
    comments[_CLUSTER] += [comment.text for comment in last]
    for item in paper.lowered(written, Findings()).items:
        if isinstance(item, (syntax.NodeType, syntax.Cluster)):
            is_node = isinstance(item, syntax.NodeType)
            lines += ["", *comments.get(item.name.text if is_node else _CLUSTER, ())]
            lines.append(f"{'node' if is_node else 'cluster'} {item.name.text} {{")
            lines += [*(f"  {_statement(statement)}" for statement in item.items), "}"]
    return _checked(source, topology, "\n".join(lines).lstrip("\n") + "\n", "block")


def to_paper(source: Source) -> str:
    """``source`` in the paper form; what is in it already, in its layout."""
    if any(isinstance(item, syntax.Define) for item in parse(source).items):
        return formatted(source)
    topology = topology_of(source)
    text, reasons = paper_text(topology)
    host = next((vertex for vertex in topology.vertices if vertex.host), None)
    able = next((vertex for vertex in topology.vertices if vertex.capabilities), None)
    if host is not None:
        reasons.append(f"the host of `{host.server}`, {host.host}")
    if able is not None:
        reasons.append(f"`{able.capabilities[0]}` of `{able.name}`")
    if reasons:
        more = f" (and {len(reasons) - 1} more)" if reasons[1:] else ""
        raise _inexpressible(source, "paper", reasons[0] + more)
    pieces, last = pieces_of(source)  # statements of the paper form are others: all comments stand at the top
    comments = [*(comment for piece in pieces for comment in piece.comments), *last]
    return _checked(source, topology, "".join(f"{comment.text}\n" for comment in comments) + text, "paper")


def _checked(source: Source, topology: Topology, text: str, form: str) -> str:
    """``text`` in its layout, if it says what ``topology`` does."""
    try:
        laid_out = formatted(checked_source(text, source.name))
        same = _meaning(topology_of(checked_source(laid_out, source.name))) == _meaning(topology)
    except HetesynthError as error:
        raise _inexpressible(source, form, error.message) from None
    if not same:
        raise _inexpressible(source, form, "some links would have other rates or share other wires")
    return laid_out


def _inexpressible(source: Source, form: str, reason: str) -> HetesynthError:
    message = f"{source.name} cannot be said in the {form} form: {reason}"
    return HetesynthError(message, code="HS250", help="keep the form it has, or convert it to json", exit_code=1)


def _meaning(topology: Topology) -> object:
    """What ``topology`` says, whatever its parts are called: equal for equal clusters.

    That is the links with their rates, what they share, the GPUs by rank and server; of several links between two
    GPUs the order does not matter.
    """
    number = {server: i for i, server in enumerate(dict.fromkeys(topology.servers))}
    plain = [(x.src, x.dst, x.kind, x.bandwidth, x.lanes, x.latency) for x in topology.links]
    order = sorted(range(len(plain)), key=lambda i: plain[i])
    place = {link: i for i, link in enumerate(order)}
    crossing: dict[int, list[int]] = defaultdict(list)
    for index, link in enumerate(topology.links):
        for wire in link.wires:
            crossing[wire].append(place[index])
    shared: Counter[object] = Counter()  # a rate and the links that share it
    for index, links in crossing.items():
        limit = topology.wires[index]
        if limit.bandwidth is not None and len(links) > 1:
            shared[limit.bandwidth * limit.lanes, tuple(sorted(links))] += 1
    for group in topology.groups:
        shared[group.bandwidth * group.lanes, tuple(sorted(place[i] for i in group.links))] += 1
    gpus = zip(map(number.get, topology.servers), topology.models, topology.throughputs, strict=True)
    return list(gpus), [plain[i] for i in order], shared, topology.chunk_bytes, topology.measured


# --- text in the block form, for what the paper form is lowered to: node types and a cluster without loops


def _statement(item: object) -> str:
    match item:
        case syntax.Gpus():
            missing = ", ".join(amount.number for amount in item.missing)
            return f"gpus {item.count.number}" + (f" except {missing}" if missing else "")
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
            both_ways = item.both_ways and item.kind == "link"
            ends = _sides(item.left, item.right, both_ways) if item.right else _names(item.left)
            return f"{item.kind} {ends}" + (f" {_block(item.properties)}" if item.properties else "")
        case syntax.Shared():
            flows = "; ".join(_sides(flow.left, flow.right, flow.both_ways) for flow in item.flows)
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


def _sides(left: Sequence[syntax.Word], right: Sequence[syntax.Word], both_ways: bool) -> str:
    return f"{_names(left)} {'<->' if both_ways else '->'} {_names(right)}"


def _names(words: Sequence[syntax.Word]) -> str:
    """``gpu0, gpu1, gpu2, nic3`` as ``gpu[0-2], nic3``."""
    names = [word.text for word in words]
    runs: list[str] = []
    at = 0
    while at < len(names):
        match = _NUMBERED.fullmatch(names[at])
        end = at + 1
        while match and end < len(names) and names[end] == f"{match[1]}{int(match[2]) + end - at}":
            end += 1
        several = match and end - at > 1
        runs.append(f"{match[1]}[{match[2]}-{int(match[2]) + end - at - 1}]" if match and several else names[at])
        at = end
    return ", ".join(runs)
