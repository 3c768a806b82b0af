"""A JSON list of nodes, directed links and groups -> text of the topology language and back, figures as they are.

GPUs become the GPUs of their servers in the order of the file. What forwards becomes a switch, or a NIC with its
fabric where the links leave no doubt. Links of one GPU to others that are alike are one statement. A node is a
GPU or forwards; a link has a rate for all of its lanes together, in GB/s, and a latency in us; a group limits
links between GPUs together.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby
from typing import Any

from hetesynth.files.strict_json import JsonLimits, JsonRefused, read_json
from hetesynth.model.topology import Topology
from hetesynth.topology.importers.machine import Remark
from hetesynth.topology.importers.reading import Reading, ReadOptions, Source, refused
from hetesynth.topology.importers.wording import bandwidth, comment, decimal, identifier, listed, natural, time

MAX_NODES = 8192
MAX_LINKS = 400_000
MAX_GROUP_EDGES = 4_000_000
MAX_NAME = 64
MAX_COUNT = 1024
MAX_RATE = 10**9  # GB/s
MAX_LATENCY = 10**9  # us

NodeId = int | str


@dataclass(frozen=True, slots=True)
class EdgeNode:
    """``server`` is None for what stands in no server."""

    id: NodeId
    type: str
    server: NodeId | None
    model: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True)
class Quality:
    """What a link carries: all lanes together in bytes per second, None where it never limits."""

    rate: Fraction | None
    count: int
    latency: Fraction
    kind: str


@dataclass(frozen=True, slots=True)
class EdgeDocument:
    """The whole file; a link is (source, destination, quality), a group has its name, rate, lanes and edges."""

    name: str
    notes: list[str]
    nodes: list[EdgeNode]
    links: list[tuple[NodeId, NodeId, Quality]]
    groups: list[tuple[str, Fraction, int, list[tuple[NodeId, NodeId]]]]


class _Reader:
    """Of the file called ``name``."""

    def __init__(self, name: str) -> None:
        self._name = name

    def document(self, data: bytes) -> EdgeDocument:
        try:
            value = read_json(data, JsonLimits(max_depth=16, max_digits=18))
        except JsonRefused as error:
            raise refused(self._name, str(error)) from error
        if not isinstance(value, dict):
            raise refused(self._name, "it is no JSON object")
        nodes = []
        for item in self._items(value, "nodes", MAX_NODES):
            stands = item.get("server") not in (None, -1)
            server = self._id(item, "server") if stands else None
            node, kind = self._id(item, "id"), self._text(item, "type") or "gpu"
            nodes.append(EdgeNode(node, kind, server, self._text(item, "model"), self._text(item, "host")))
        ids = {node.id for node in nodes}
        if len(ids) != len(nodes) or len({str(i) for i in ids}) != len(nodes):
            raise refused(self._name, "two nodes have the same id")
        gpus = {node.id for node in nodes if node.type == "gpu"}
        if not gpus:
            raise refused(self._name, "no node is of type gpu")
        links = []
        for item in self._items(value, "links", MAX_LINKS):
            src, dst = self._id(item, "src"), self._id(item, "dst")
            if src not in ids or dst not in ids or src == dst:
                raise refused(self._name, f"a link from {src} to {dst}: the nodes are not there, or are one")
            rate = None if item.get("GBps", 0) is None else self._rate(item)
            latency = Fraction(0)
            if item.get("alpha_us") is not None:
                latency = self._number(item, "alpha_us", MAX_LATENCY) / 10**6
            links.append((src, dst, Quality(rate, self._count(item), latency, self._text(item, "kind"))))
        groups = []
        for item in self._items(value, "groups", MAX_LINKS):
            edges = item.get("edges")
            if not isinstance(edges, list) or not edges or len(edges) > MAX_LINKS:
                raise refused(self._name, "a group without a list of edges")
            for edge in edges:
                pair = isinstance(edge, list) and len(edge) == 2
                if not pair or any(type(end) not in (int, str) or end not in gpus for end in edge):
                    raise refused(self._name, "an edge of a group that does not join two GPUs")
            pairs = [(a, b) for a, b in edges]
            if len(set(pairs)) != len(pairs) or any(a == b for a, b in pairs):
                raise refused(self._name, "a group that names an edge twice, or from a GPU to itself")
            groups.append((self._text(item, "name"), self._rate(item), self._count(item), pairs))
        if sum(len(pairs) for *_, pairs in groups) > MAX_GROUP_EDGES:
            raise refused(self._name, f"its groups have more than {MAX_GROUP_EDGES} edges")
        notes = [f"source: {self._text(value, 'source', 400)}"] if value.get("source") else []
        for key in ("stated", "assumed"):  # where the figures are from and what was assumed, for comments
            texts = value.get(key)
            if isinstance(texts, list):
                notes += [f"{key}: {text[:400]}" for text in texts[:16] if isinstance(text, str)]
        return EdgeDocument(self._text(value, "name"), notes, nodes, links, groups)

    def _items(self, value: Mapping[str, Any], key: str, most: int) -> list[Mapping[str, Any]]:
        items = value.get(key, [])
        if not isinstance(items, list) or any(not isinstance(item, dict) for item in items):
            raise refused(self._name, f"{key} is no list of objects")
        if len(items) > most:
            raise refused(self._name, f"it has more than {most} {key}")
        return items

    def _id(self, item: Mapping[str, Any], key: str) -> NodeId:
        value = item.get(key, "")
        if isinstance(value, str) and 0 < len(value) <= MAX_NAME:
            return value
        if type(value) is int and 0 <= value < MAX_LINKS:
            return value
        raise refused(self._name, f"{key} is neither a number nor a name of up to {MAX_NAME} characters")

    def _text(self, item: Mapping[str, Any], key: str, most: int = MAX_NAME) -> str:
        value = item.get(key) or ""
        if not isinstance(value, str):
            raise refused(self._name, f"{key} is no text")
        return value[:most]

    def _count(self, item: Mapping[str, Any]) -> int:
        value = item.get("count", 1)
        if type(value) is not int or not 1 <= value <= MAX_COUNT:
            raise refused(self._name, f"count is no number from 1 to {MAX_COUNT}")
        return value

    def _rate(self, item: Mapping[str, Any]) -> Fraction:
        value = self._number(item, "GBps", MAX_RATE)
        if not value:
            raise refused(self._name, "GBps is 0")
        return value * 10**9

    def _number(self, item: Mapping[str, Any], key: str, most: int) -> Fraction:
        value = item.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise refused(self._name, f"{key} is no number")
        if not 0 <= value <= most:
            raise refused(self._name, f"{key} is {value}, not from 0 to {most}")
        return Fraction(str(value))


_WORDS = {"border_router": "router", "router": "router", "cpu": "cpu", "numa": "numa", "pcie": "pcie"}

Join = tuple[NodeId, NodeId, Quality, str]  # two nodes, what joins them, the arrow


@dataclass(frozen=True, slots=True)
class _Names:
    """Names of nodes inside their server and in the cluster; the server of each, -1 for none."""

    local: dict[NodeId, str]
    full: dict[NodeId, str]
    server: dict[NodeId, int]
    servers: list[list[EdgeNode]]


def read(source: Source, options: ReadOptions) -> Reading:
    """Return the cluster as text; HetesynthError HS732."""
    document = _Reader(source.name).document(source.data)
    ends = {end for src, dst, _ in document.links for end in (src, dst)}
    # nodes that forward and are joined to nothing are left out
    document = replace(document, nodes=[node for node in document.nodes if node.type == "gpu" or node.id in ends])
    names = _named(source.name, document)
    nics = _fabric_of_nics(document, names)
    lines = comment(f"Imported from {source.name}: {document.name}")
    remarks = _renamed(document, names)
    for note in (*document.notes, *(f"{remark.kind}: {remark.text}" for remark in remarks)):
        lines += comment(note)
    assumed = (note.removeprefix("assumed: ") for note in document.notes if note.startswith("assumed: "))
    # links, those of both directions as one; without those between NICs and fabrics
    counts = Counter(document.links)
    joins: list[Join] = []
    for a, b, quality in list(counts):
        n = counts[a, b, quality]
        if n == 0 or nics.get(a) == b or nics.get(b) == a:
            continue
        both = min(n, counts[b, a, quality])
        joins += [(a, b, quality, "<->")] * both + [(a, b, quality, "->")] * (n - both)
        counts[a, b, quality] = 0
        counts[b, a, quality] -= both
    types: dict[tuple[str, ...], str] = {}
    of_type: list[str] = []
    for i, nodes in enumerate(names.servers):
        body = tuple(_server_body(source.name, document, i, nodes, names, joins, nics))
        if body not in types:
            types[body] = f"server{len(types)}" if len(types) else "server"
            lines += ["", f"node {types[body]} {{", *(f"  {line}" for line in body), "}"]
        of_type.append(types[body])
    lines += ["", f"cluster {identifier(document.name, 'c')} {{"]
    hosts = [nodes[0].host for nodes in names.servers]
    # servers of one type without hosts are one statement
    for (node_type, _), run in groupby(range(len(hosts)), lambda i: (of_type[i], i if hosts[i] else -1)):
        numbers = list(run)
        host = hosts[numbers[0]]
        stated = f' {{ host "{host}" }}' if host.replace("-", "").replace(".", "").isalnum() else ""
        lines.append(f"  instance {listed([f'n{i}' for i in numbers])} = {node_type}{stated}")
    for node in document.nodes:  # switches and fabrics of the cluster
        if names.server[node.id] < 0:
            members = [names.full[nic] for nic, fabric in nics.items() if fabric == node.id]
            name = names.full[node.id]
            if members:
                lines.append(f"  fabric {name} {{ join {listed(sorted(members, key=natural))} }}")
            else:
                lines.append(f"  {_WORDS.get(node.type, 'switch')} {name} {{ }}")
    numbered = [(join, names.server[join[0]], names.server[join[1]]) for join in joins]
    between = [join for join, a, b in numbered if a != b or a < 0]
    lines += [f"  {line}" for line in _statements(source.name, between, names.full, nics)]
    for name, rate, count, edges in document.groups:
        reached: dict[NodeId, list[NodeId]] = defaultdict(list)
        for a, b in edges:
            reached[a].append(b)
        flows: dict[tuple[NodeId, ...], list[NodeId]] = defaultdict(
            list
        )  # from sources with the same destinations
        for a, there in reached.items():
            flows[tuple(sorted(there, key=lambda i: natural(names.full[i])))].append(a)
        lines.append(f"  shared {identifier(name, 'g')} {_lanes(rate, count)} {{")
        for to, starts in flows.items():
            lines.append(f"    {listed([names.full[i] for i in starts])} -> {listed([names.full[i] for i in to])}")
        lines.append("  }")
    remarks += [Remark("assumed", text) for text in assumed if text]
    return Reading(text="\n".join([*lines, "}"]).lstrip("\n") + "\n", remarks=tuple(remarks))


def _named(source: str, document: EdgeDocument) -> _Names:
    """Servers in order of their first GPU; the GPUs of one stand together, or ranks would change."""
    order: dict[NodeId | None, list[EdgeNode]] = {}
    last: NodeId | None = None
    for node in document.nodes:
        if node.type != "gpu":
            continue
        if node.server in order and node.server != last:
            what = f"the GPUs of server {node.server} do not stand together"
            raise refused(source, what, "sort nodes by server")
        order.setdefault(node.server, []).append(node)
        last = node.server
    number = {server: i for i, server in enumerate(order)}
    local: dict[NodeId, str] = {node.id: f"gpu{k}" for nodes in order.values() for k, node in enumerate(nodes)}
    local |= {node.id: identifier(str(node.id), "v") for node in document.nodes if node.type != "gpu"}
    server = {node.id: number.get(node.server, -1) for node in document.nodes}
    full = {i: name if server[i] < 0 else f"n{server[i]}.{name}" for i, name in local.items()}
    if len(set(full.values())) < len(full):
        raise refused(source, "two nodes would have the same name in the topology language", "rename the nodes")
    return _Names(local, full, server, list(order.values()))


def _fabric_of_nics(document: EdgeDocument, names: _Names) -> dict[NodeId, NodeId]:
    """NIC -> the node that is its fabric, where the graph has the form that these two give it; else nothing."""
    types = {node.id: node.type for node in document.nodes}
    nics = {i for i, kind in types.items() if kind == "nic"}
    counts = Counter((src, dst) for src, dst, _ in document.links)
    quality = {(src, dst): quality for src, dst, quality in document.links}
    neighbours: dict[NodeId, set[NodeId]] = defaultdict(set)
    for a, b in counts:
        single = counts[a, b] == counts[b, a] == 1
        of_nic = a in nics or b in nics
        if of_nic and (not single or quality[a, b] != quality[b, a] or quality[a, b].latency):
            return {}
        neighbours[a].add(b)
        neighbours[b].add(a)
    fabric_of: dict[NodeId, NodeId] = {}
    for nic in nics:
        outside = [n for n in neighbours[nic] if types[n] != "gpu"]
        inside = [n for n in neighbours[nic] if types[n] == "gpu"]
        if len(outside) != 1 or names.server[nic] < 0 or names.server[outside[0]] >= 0 or not inside:
            return {}
        if any(names.server[n] != names.server[nic] for n in inside) or quality[nic, outside[0]].rate is None:
            return {}
        fabric_of[nic] = outside[0]
    if any(not neighbours[f] <= nics or len(neighbours[f]) < 2 for f in fabric_of.values()):
        return {}
    return fabric_of


def _server_body(
    source: str,
    document: EdgeDocument,
    index: int,
    gpus: Sequence[EdgeNode],
    names: _Names,
    joins: Sequence[Join],
    nics: dict[NodeId, NodeId],
) -> Iterable[str]:
    """The statements of a server's node type."""
    models = sorted({node.model for node in gpus if node.model})
    if models and all(c.isprintable() and c not in '"\\' for c in models[0]):
        yield f'model "{models[0]}"'
    yield f"gpus {len(gpus)}"
    rates = {src: quality for src, dst, quality in document.links if nics.get(src) == dst}
    for node in document.nodes:
        if node.type == "gpu" or names.server[node.id] != index:
            continue
        if node.id in nics:
            yield f"nic {names.local[node.id]} {{ {_rate(source, rates[node.id])} }}"
        else:
            yield f"{_WORDS.get(node.type, 'switch')} {names.local[node.id]} {{ }}"
    inside = [join for join in joins if names.server[join[0]] == names.server[join[1]] == index]
    yield from _statements(source, inside, names.local, nics)


def _statements(
    source: str, joins: Sequence[Join], names: dict[NodeId, str], nics: dict[NodeId, NodeId]
) -> Iterable[str]:
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


def _rate(source: str, quality: Quality, free: bool = False) -> str:
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
    exact = Fraction(decimal(lane / 10**9)) * 10**9 == lane
    return bandwidth(lane, count) if exact else f"({bandwidth(total)} / {count}) x {count}"


def _renamed(document: EdgeDocument, names: _Names) -> list[Remark]:
    """What the text calls otherwise than the file."""
    others = [node for node in document.nodes if node.type != "gpu" and names.local[node.id] != str(node.id)]
    kinds = sorted({quality.kind for _, _, quality in document.links if quality.kind})
    changed = [f"{kind} is {identifier(kind, 'k')}" for kind in kinds if identifier(kind, "k") != kind]
    gpus = [node.id for node in document.nodes if node.type == "gpu"]
    texts = []
    if others:
        texts.append(f"nodes were renamed: {', '.join(f'{n.id} is {names.local[n.id]}' for n in others[:8])}")
    if changed:
        texts.append(f"kinds are names of the language: {', '.join(changed)}")
    if gpus != list(range(len(gpus))):
        texts.append("GPUs are numbered anew, by rank")
    return [Remark("found", text) for text in texts]


_TYPES = {"fabric": "switch", "router": "border_router"}


def edge_document(topology: Topology) -> dict[str, Any]:
    """Return the list of a topology, ready for JSON, with every wire; GPUs are numbered by rank.

    What forwards has its own name, with that of its server in front only where two would be the same. A wire that
    never limits has ``GBps`` null.
    """

    def number(value: Fraction) -> int | float:
        return int(value) if value.denominator == 1 else float(value)

    short = [vertex.name.rpartition(".")[2] for vertex in topology.vertices]
    counts = Counter(short)
    ids: list[int | str] = [*range(topology.ranks)]
    for vertex, name in zip(topology.vertices[topology.ranks :], short[topology.ranks :], strict=True):
        ids.append(name if counts[name] == 1 else vertex.name)
    servers: dict[str, int] = {}
    for vertex in topology.vertices[: topology.ranks]:
        servers.setdefault(vertex.server, len(servers))
    return {
        "name": topology.name,
        "units": {"GBps": "1e9 bytes/s, one direction", "alpha_us": "microseconds per transfer"},
        "nodes": [
            {
                "id": ids[i],
                "type": _TYPES.get(vertex.kind, vertex.kind),
                "server": servers.get(vertex.server, -1),
                "model": vertex.model,
                **({"host": vertex.host} if vertex.host else {}),
            }
            for i, vertex in enumerate(topology.vertices)
        ],
        "links": [
            {
                "src": ids[wire.src],
                "dst": ids[wire.dst],
                "GBps": None if wire.bandwidth is None else number(wire.bandwidth * wire.lanes / 10**9),
                "alpha_us": number(wire.latency * 10**6),
                "kind": wire.kind,
                "count": wire.lanes,
            }
            for wire in topology.wires
        ],
        "groups": [
            {
                "name": group.name,
                "kind": group.kind,
                "GBps": number(group.bandwidth * group.lanes / 10**9),
                **({"count": group.lanes} if group.lanes > 1 else {}),
                # the ends of links, each pair once
                "edges": [
                    list(pair)
                    for pair in dict.fromkeys((topology.links[i].src, topology.links[i].dst) for i in group.links)
                ],
            }
            for group in topology.groups
        ],
    }
