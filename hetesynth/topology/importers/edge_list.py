"""A JSON list of nodes, directed links and groups -> text of the topology language, with every figure as it is.

GPUs become the GPUs of their servers in the order of the file. What forwards becomes a switch, or a NIC with its
fabric where the links leave no doubt. Links of one GPU to others that are alike are one statement.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from hetesynth.topology.importers.edge_document import (
    EdgeDocument,
    EdgeGroup,
    EdgeNode,
    NodeId,
    Quality,
    read_document,
)
from hetesynth.topology.importers.machine import Remark
from hetesynth.topology.importers.reading import Reading, ReadOptions, Source, refused
from hetesynth.topology.importers.wording import bandwidth, comment, decimal, identifier, listed, time

_WORDS = {"border_router": "router", "router": "router", "cpu": "cpu", "numa": "numa", "pcie": "pcie"}
_INDENT = "  "

Join = tuple[NodeId, NodeId, Quality, str]  # two nodes, what joins them, the arrow


@dataclass(frozen=True, slots=True)
class _Names:
    """Names of nodes inside their server and in the cluster; the server of each, -1 for none."""

    local: dict[NodeId, str]
    full: dict[NodeId, str]
    server: dict[NodeId, int]
    servers: tuple[tuple[EdgeNode, ...], ...]


def read(source: Source, options: ReadOptions) -> Reading:
    """The cluster as text. Raises HetesynthError HS732."""
    document = _joined(read_document(source))
    names = _named(source, document)
    nics = _fabric_of_nics(document, names)
    lines = comment(f"Imported from {source.name}: {document.name}")
    remarks = _renamed(document, names)
    for note in (*document.notes, *(f"{remark.kind}: {remark.text}" for remark in remarks)):
        lines += comment(note)
    assumed = (note.removeprefix("assumed: ") for note in document.notes if note.startswith("assumed: "))
    joins = _joins(document, nics)
    types: dict[tuple[str, ...], str] = {}
    instances: list[tuple[str, str, str]] = []
    for i, nodes in enumerate(names.servers):
        body = tuple(_server_body(source, document, i, nodes, names, joins, nics))
        if body not in types:
            types[body] = f"server{len(types)}" if len(types) else "server"
            lines += ["", f"node {types[body]} {{", *(_INDENT + line for line in body), "}"]
        instances.append((f"n{i}", types[body], nodes[0].host))
    lines += ["", f"cluster {identifier(document.name, 'c')} {{"]
    lines += [_INDENT + line for line in _instances(instances)]
    lines += [_INDENT + line for line in _outside(source, document, names, joins, nics)]
    lines += [_INDENT + line for group in document.groups for line in _group(group, names)]
    stated = tuple(Remark("assumed", text) for text in assumed if text)
    return Reading(text="\n".join([*lines, "}"]).lstrip("\n") + "\n", remarks=(*remarks, *stated))


def _joined(document: EdgeDocument) -> EdgeDocument:
    """Without nodes that forward and are joined to nothing."""
    ends = {end for link in document.links for end in (link.src, link.dst)}
    nodes = tuple(node for node in document.nodes if node.type == "gpu" or node.id in ends)
    return replace(document, nodes=nodes)


def _named(source: Source, document: EdgeDocument) -> _Names:
    """Servers in order of their first GPU; the GPUs of one stand together, or ranks would change."""
    order: dict[NodeId | None, list[EdgeNode]] = {}
    last: NodeId | None = None
    for node in document.nodes:
        if node.type != "gpu":
            continue
        if node.server in order and node.server != last:
            raise refused(
                source, f"the GPUs of server {node.server} do not stand together", "sort nodes by server"
            )
        order.setdefault(node.server, []).append(node)
        last = node.server
    number = {server: i for i, server in enumerate(order)}
    local: dict[NodeId, str] = {node.id: f"gpu{k}" for nodes in order.values() for k, node in enumerate(nodes)}
    server = {node.id: number.get(node.server, -1) for node in document.nodes}
    for node in document.nodes:
        if node.type != "gpu":
            local[node.id] = identifier(str(node.id), "v")
    full = {i: name if server[i] < 0 else f"n{server[i]}.{name}" for i, name in local.items()}
    if len(set(full.values())) < len(full):
        raise refused(source, "two nodes would have the same name in the topology language", "rename the nodes")
    return _Names(local, full, server, tuple(tuple(nodes) for nodes in order.values()))


def _fabric_of_nics(document: EdgeDocument, names: _Names) -> dict[NodeId, NodeId]:
    """NIC -> the node that is its fabric, where the graph has the form that these two give it; else nothing."""
    types = {node.id: node.type for node in document.nodes}
    nics = {i for i, kind in types.items() if kind == "nic"}
    counts = Counter((link.src, link.dst) for link in document.links)
    quality = {(link.src, link.dst): link.quality for link in document.links}
    neighbours: dict[NodeId, set[NodeId]] = defaultdict(set)
    for a, b in counts:
        if counts[a, b] != 1 or counts[b, a] != 1:
            if a in nics or b in nics:
                return {}
        elif (a in nics or b in nics) and (quality[a, b] != quality[b, a] or quality[a, b].latency):
            return {}
        neighbours[a].add(b)
        neighbours[b].add(a)
    fabric_of: dict[NodeId, NodeId] = {}
    for nic in nics:
        outside = [n for n in neighbours[nic] if types[n] != "gpu"]
        if len(outside) != 1 or names.server[nic] < 0 or names.server[outside[0]] >= 0:
            return {}
        if any(names.server[n] != names.server[nic] for n in neighbours[nic] if types[n] == "gpu"):
            return {}
        if quality[nic, outside[0]].rate is None or len(neighbours[nic]) < 2:
            return {}
        fabric_of[nic] = outside[0]
    fabrics = set(fabric_of.values())
    if any(not neighbours[f] <= nics or len(neighbours[f]) < 2 for f in fabrics):
        return {}
    return fabric_of


def _joins(document: EdgeDocument, nics: dict[NodeId, NodeId]) -> list[Join]:
    """Links, those of both directions as one; without those between NICs and fabrics."""
    counts = Counter((link.src, link.dst, link.quality) for link in document.links)
    joins: list[Join] = []
    for a, b, quality in list(counts):
        n = counts[a, b, quality]
        if n == 0 or nics.get(a) == b or nics.get(b) == a:
            continue
        both = min(n, counts[b, a, quality])
        joins += [(a, b, quality, "<->")] * both + [(a, b, quality, "->")] * (n - both)
        counts[a, b, quality] = 0
        counts[b, a, quality] -= both
    return joins


def _server_body(
    source: Source, document: EdgeDocument, index: int, gpus: Sequence[EdgeNode], names: _Names,
    joins: Sequence[Join], nics: dict[NodeId, NodeId],
) -> Iterable[str]:  # fmt: skip
    """The statements of a server's node type."""
    models = sorted({node.model for node in gpus if node.model})
    if models and all(c.isprintable() and c not in '"\\' for c in models[0]):
        yield f'model "{models[0]}"'
    yield f"gpus {len(gpus)}"
    quality = {(link.src, link.dst): link.quality for link in document.links if link.src in nics}
    for node in document.nodes:
        if node.type == "gpu" or names.server[node.id] != index:
            continue
        if node.id in nics:
            rate = quality[node.id, nics[node.id]]
            yield f"nic {names.local[node.id]} {{ {_rate(source, rate)} }}"
        else:
            yield f"{_WORDS.get(node.type, 'switch')} {names.local[node.id]} {{ }}"
    inside = [join for join in joins if names.server[join[0]] == names.server[join[1]] == index]
    yield from _statements(source, inside, names.local, nics)


def _outside(
    source: Source, document: EdgeDocument, names: _Names, joins: Sequence[Join], nics: dict[NodeId, NodeId]
) -> Iterable[str]:  # fmt: skip
    """Switches and fabrics of the cluster, and links between servers."""
    for node in document.nodes:
        if names.server[node.id] >= 0:
            continue
        members = [names.full[nic] for nic, fabric in nics.items() if fabric == node.id]
        if members:
            yield f"fabric {names.full[node.id]} {{ join {listed(sorted(members, key=_natural))} }}"
        else:
            yield f"{_WORDS.get(node.type, 'switch')} {names.full[node.id]} {{ }}"
    ends = [(join, names.server[join[0]], names.server[join[1]]) for join in joins]
    between = [join for join, a, b in ends if a != b or a < 0]
    yield from _statements(source, between, names.full, nics)


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    return tuple(
        (int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"[0-9]{1,9}|[^0-9]+", name)
    )


def _statements(
    source: Source, joins: Sequence[Join], names: dict[NodeId, str], nics: dict[NodeId, NodeId]
) -> Iterable[str]:  # fmt: skip
    """``link`` and ``attach``: a node with all that it reaches alike, once for each repetition."""
    alike: dict[tuple[str, NodeId, Quality, str, int], list[NodeId]] = defaultdict(list)
    repeated: Counter[Join] = Counter()
    for join in joins:
        a, b, quality, arrow = join
        repeated[join] += 1
        word = "link"
        if a in nics or b in nics:
            word, arrow = "attach", "->"
            a, b = (b, a) if a in nics else (a, b)
        alike[word, a, quality, arrow, repeated[join]].append(b)
    for (word, a, quality, arrow, _), others in alike.items():
        body = _rate(source, quality, word == "attach")
        rest = f" {{ {body} }}" if body else ""
        yield f"{word} {names[a]} {arrow} {listed([names[b] for b in others])}{rest}"


def _rate(source: Source, quality: Quality, free: bool = False) -> str:
    """The properties of a link; ``free``: it may be without a rate."""
    words = []
    if quality.rate is not None:
        words.append(f"bandwidth {_lanes(quality.rate, quality.count)}")
    elif not free:
        raise refused(source, "a link without a rate (GBps null), which only a link to a NIC can be")
    if quality.latency:
        words.append(f"latency {time(quality.latency)}")
    if quality.kind:
        words.append(f"kind {identifier(quality.kind, 'k')}")
    return "; ".join(words)


def _lanes(total: Fraction, count: int) -> str:
    """``25 GB/s x 2``; as a quotient where a lane's share has no end."""
    lane = total / count
    if Fraction(decimal(lane / 10**9)) * 10**9 == lane:
        return bandwidth(lane, count)
    return f"({bandwidth(total)} / {count}) x {count}"


def _instances(instances: Sequence[tuple[str, str, str]]) -> Iterable[str]:
    run: list[str] = []
    for i, (name, node_type, host) in enumerate(instances):
        run.append(name)
        after = instances[i + 1] if i + 1 < len(instances) else ("", "", "")
        if host or after[1] != node_type or after[2]:
            body = f' {{ host "{host}" }}' if host and host.replace("-", "").replace(".", "").isalnum() else ""
            yield f"instance {listed(run)} = {node_type}{body}"
            run = []


def _group(group: EdgeGroup, names: _Names) -> Iterable[str]:
    """``shared``: sources with the same destinations in one flow."""
    reached: dict[NodeId, list[NodeId]] = defaultdict(list)
    for a, b in group.edges:
        reached[a].append(b)
    flows: dict[tuple[NodeId, ...], list[NodeId]] = defaultdict(list)
    for a, ends in reached.items():
        flows[tuple(sorted(ends, key=lambda i: _natural(names.full[i])))].append(a)
    yield f"shared {identifier(group.name, 'g')} {_lanes(group.rate, group.count)} {{"
    for there, starts in flows.items():
        yield f"  {listed([names.full[i] for i in starts])} -> {listed([names.full[i] for i in there])}"
    yield "}"


def _renamed(document: EdgeDocument, names: _Names) -> tuple[Remark, ...]:
    """What the text calls otherwise than the file."""
    others = [node for node in document.nodes if node.type != "gpu" and names.local[node.id] != str(node.id)]
    kinds = sorted({link.quality.kind for link in document.links if link.quality.kind})
    changed = [f"{kind} is {identifier(kind, 'k')}" for kind in kinds if identifier(kind, "k") != kind]
    gpus = [node.id for node in document.nodes if node.type == "gpu"]
    texts = []
    if others:
        texts.append(f"nodes were renamed: {', '.join(f'{n.id} is {names.local[n.id]}' for n in others[:8])}")
    if changed:
        texts.append(f"kinds are names of the language: {', '.join(changed)}")
    if gpus != list(range(len(gpus))):
        texts.append("GPUs are numbered anew, by rank")
    return tuple(Remark("found", text) for text in texts)
