"""A JSON list of nodes, directed links and groups -> text of the topology language and back, figures as they are.

What forwards becomes a switch, or a NIC with its fabric where the links leave no doubt. Links of one GPU to others
that are alike are one statement. A link has a rate for all of its lanes together, in GB/s, and a latency in us.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby
from typing import Any

from hetesynth.files.strict_json import JsonRefused, read_json
from hetesynth.model.topology import Topology
from hetesynth.topology.importers.machine import Remark
from hetesynth.topology.importers.reading import Reading, ReadOptions, Source, refused
from hetesynth.topology.importers.wording import bandwidth, comment, decimal, identifier, listed, natural, time

MAX_NODES = 8192
MAX_LINKS = 400_000
MAX_GROUP_EDGES = 4_000_000
MAX_NAME = 64
MAX_COUNT = 1024
MAX_FIGURE = 10**9  # GB/s, us

NodeId = int | str
_TYPES = {"fabric": "switch", "router": "border_router"}


@dataclass(frozen=True, slots=True)
class EdgeNode:
    """A GPU, or a part that forwards, such as a switch."""

    id: NodeId
    type: str
    server: NodeId | None  # None for what stands in no server
    model: str
    host: str
    number: int = -1  # of its server in the text, -1 for none
    local: str = ""  # its name there

    @property
    def full(self) -> str:
        """The name of the node in the cluster."""
        return self.local if self.number < 0 else f"n{self.number}.{self.local}"


@dataclass(frozen=True, slots=True)
class Quality:
    """The rate of a link, all lanes together in bytes per second (None: never limits), lanes, latency and kind."""

    rate: Fraction | None
    count: int
    latency: Fraction
    kind: str


@dataclass(frozen=True, slots=True)
class EdgeDocument:
    """The whole file; a link is (source, destination, quality), a group has its name, rate, lanes and edges."""

    name: str
    notes: list[str]
    nodes: dict[NodeId, EdgeNode]
    links: list[tuple[NodeId, NodeId, Quality]]
    groups: list[tuple[str, Fraction, int, list[tuple[NodeId, NodeId]]]]
    measured: list[str]  # kinds whose rates are what transfers get


def _id(value: object) -> NodeId:
    if (isinstance(value, str) and 0 < len(value) <= MAX_NAME) or (type(value) is int and 0 <= value < MAX_LINKS):
        return value
    raise ValueError(f"{str(value)[:40]!r} is neither a number nor a name of up to {MAX_NAME} characters")


def _text(item: Mapping[str, Any], key: str, most: int = MAX_NAME) -> str:
    value = item.get(key) or ""
    if not isinstance(value, str):
        raise ValueError(f"{key} is no text")
    return value[:most]


def positive(item: Mapping[str, Any], key: str, *, zero: bool = False) -> Fraction:
    """Return the number at ``key``, above 0 or with ``zero`` 0 too; else raise ValueError."""
    value = item.get(key)
    if type(value) not in (int, float, Fraction) or not 0 <= value <= MAX_FIGURE or not (value or zero):  # type: ignore[operator]
        raise ValueError(f"{key} is {str(value)[:40]}, no number above 0 and up to {MAX_FIGURE}")
    return Fraction(str(value))


def _count(item: Mapping[str, Any]) -> int:
    value = item.get("count", 1)
    if type(value) is not int or not 1 <= value <= MAX_COUNT:
        raise ValueError(f"count is no number from 1 to {MAX_COUNT}")
    return value


def _edges(pairs: Any, ends: set[NodeId]) -> list[tuple[NodeId, NodeId]]:
    """Return ``pairs`` as edges. Raise ValueError unless each is there once and joins two different ``ends``."""
    edges = [(a, b) for a, b in pairs]
    if any(_id(a) not in ends or _id(b) not in ends or a == b for a, b in edges) or len(set(edges)) != len(edges):
        raise ValueError("an edge that is there twice, or does not join two nodes (in a group: two GPUs)")
    return edges


def _document(value: Any, stated: str, assumed: str) -> EdgeDocument:
    """Return the document in the value of a JSON file. Raise ValueError if a part of it is wrong. ``stated``: the
    model of its GPUs, whatever it says; ``assumed``: the model of those whose model it does not tell."""
    nodes = []
    for item in value.get("nodes", []):
        server = None if item.get("server") in (None, -1) else _id(item["server"])
        sort, model, host = (_text(item, key) for key in ("type", "model", "host"))
        sort = sort or "gpu"
        model = stated or model or assumed if sort == "gpu" else model
        nodes.append(EdgeNode(_id(item.get("id")), sort, server, model, host, local=_text(item, "name")))
    ids, gpus = {node.id for node in nodes}, {node.id for node in nodes if node.type == "gpu"}
    if len({str(i) for i in ids}) != len(nodes) or not gpus:
        raise ValueError("no node is of type gpu, or two nodes have the same id")
    links = []
    for item in value.get("links", []):
        ((src, dst),) = _edges([(item.get("src"), item.get("dst"))], ids)
        rate = None if item.get("GBps", 0) is None else positive(item, "GBps") * 10**9
        latency = Fraction(0) if item.get("alpha_us") is None else positive(item, "alpha_us", zero=True) / 10**6
        links.append((src, dst, Quality(rate, _count(item), latency, _text(item, "kind"))))
    groups = [
        (_text(item, "name"), positive(item, "GBps") * 10**9, _count(item), _edges(item["edges"], gpus))
        for item in value.get("groups", [])
    ]
    if not all(edges for *_, edges in groups):
        raise ValueError("a group without edges")
    if len(nodes) > MAX_NODES or len(links) > MAX_LINKS or sum(len(e) for *_, e in groups) > MAX_GROUP_EDGES:
        raise ValueError(f"more than {MAX_NODES} nodes, {MAX_LINKS} links or {MAX_GROUP_EDGES} edges of groups")
    notes = [f"source: {_text(value, 'source', 400)}"] if value.get("source") else []
    for key in ("stated", "assumed"):  # where the figures are from and what was assumed, for comments
        texts = value.get(key)
        if isinstance(texts, list):
            notes += [f"{key}: {text[:400]}" for text in texts[:16] if isinstance(text, str)]
    # nodes that forward and are joined to nothing are left out
    ends = {end for src, dst, _ in links for end in (src, dst)}
    nodes = [node for node in nodes if node.type == "gpu" or node.id in ends]
    # servers in order of their first GPU; the GPUs of one stand together, or ranks would change
    of_gpus = groupby((node for node in nodes if node.type == "gpu"), lambda node: node.server)
    servers = [(server, [node.id for node in own]) for server, own in of_gpus]
    numbers = {server: i for i, (server, _) in enumerate(servers)}
    local = {gpu: f"gpu{k}" for _, own in servers for k, gpu in enumerate(own)}
    named = {}
    for node in nodes:
        name = local.get(node.id) or identifier(node.local or str(node.id), "v")
        named[node.id] = replace(node, number=numbers.get(node.server, -1), local=name)
    if len(numbers) < len(servers) or len({node.full for node in named.values()}) < len(named):
        what = "GPUs of a server that do not stand together, or two nodes that the text would call alike"
        raise ValueError(what)
    measured = [identifier(kind, "k") for kind in value.get("measured", [])]
    return EdgeDocument(_text(value, "name"), notes, named, links, groups, measured)


_WORDS = {"border_router": "router", "router": "router", "cpu": "cpu", "numa": "numa", "pcie": "pcie"}

Join = tuple[NodeId, NodeId, Quality, str]  # two nodes, what joins them, the arrow


def read(source: Source, options: ReadOptions) -> Reading:
    """Return the cluster as text; HetesynthError HS732."""
    try:
        value = read_json(source.data, max_depth=16, max_digits=18)
        return reading_of(value, source.name, models=(source.stated.model, options.model))
    except JsonRefused as error:
        raise refused(source.name, str(error)) from error


def reading_of(
    value: Any, name: str, before: Sequence[Remark] = (), models: tuple[str, str] = ("", "")
) -> Reading:
    """Return the cluster of a list's value, with the remarks of its reader; HetesynthError HS732. ``models``: of
    its GPUs as stated, and where the value does not tell."""
    try:
        document = _document(value, *models)
        lines, remarks = _text_of(document, name, before)
    except ValueError as error:
        raise refused(name, str(error)) from error
    except (AttributeError, KeyError, TypeError) as error:
        raise refused(name, "nodes, links and groups are not lists of objects as they should be") from error
    return Reading(text="\n".join(lines).lstrip("\n") + "\n", remarks=tuple(remarks))


def _text_of(document: EdgeDocument, file: str, before: Sequence[Remark]) -> tuple[list[str], list[Remark]]:
    nodes, nics = document.nodes, _fabric_of_nics(document)
    remarks = [*before]
    kinds = sorted({quality.kind for _, _, quality in document.links if quality.kind})
    changed = [f"{kind} is {identifier(kind, 'k')}" for kind in kinds if identifier(kind, "k") != kind]
    if changed:
        remarks.append(Remark("found", f"kinds are names of the language: {', '.join(changed)}"))
    gpus = [node for node in nodes.values() if node.type == "gpu"]
    if [node.id for node in gpus] != list(range(len(gpus))):
        remarks.append(Remark("found", "GPUs are numbered anew, by rank"))
    lines = comment(f"Imported from {file}: {document.name}")
    for note in (*document.notes, *(f"{remark.kind}: {remark.text}" for remark in remarks)):
        lines += comment(note)
    assumed = (note.removeprefix("assumed: ") for note in document.notes if note.startswith("assumed: "))
    remarks += [Remark("assumed", text) for text in assumed if text]
    joins: dict[int, list[Join]] = defaultdict(list)  # by server, -1 for those of the cluster
    for join in _joins(document, nics):
        a, b = nodes[join[0]].number, nodes[join[1]].number
        joins[a if a == b else -1].append(join)
    types: dict[tuple[str, ...], str] = {}
    instances: list[tuple[str, str, str]] = []  # type, host, name
    for number, run in groupby(gpus, lambda node: node.number):
        own = list(run)
        body = tuple(_server_body(document, own, joins[number], nics))
        if body not in types:
            types[body] = f"server{len(types)}" if len(types) else "server"
            lines += ["", f"node {types[body]} {{", *(f"  {line}" for line in body), "}"]
        instances.append((types[body], own[0].host, f"n{number}"))
    lines += ["", f"cluster {identifier(document.name, 'c')} {{"]
    # servers of one type without hosts are one statement
    for (node_type, host, _), alike in groupby(instances, lambda one: (one[0], one[1], one[1] and one[2])):
        stated = f' {{ host "{host}" }}' if host.replace("-", "").replace(".", "").isalnum() else ""
        lines.append(f"  instance {listed([name for _, _, name in alike])} = {node_type}{stated}")
    for node in nodes.values():  # switches and fabrics of the cluster
        members = [nodes[nic].full for nic, fabric in nics.items() if fabric == node.id]
        if members:
            lines.append(f"  fabric {node.full} {{ join {listed(sorted(members, key=natural))} }}")
        elif node.number < 0:
            lines.append(f"  {_WORDS.get(node.type, 'switch')} {node.full} {{ }}")
    lines += [f"  {line}" for line in _statements(joins[-1], {i: node.full for i, node in nodes.items()}, nics)]
    for name, rate, count, edges in document.groups:
        reached: dict[NodeId, list[str]] = defaultdict(list)
        for a_gpu, b_gpu in edges:
            reached[a_gpu].append(nodes[b_gpu].full)
        flows: dict[tuple[str, ...], list[str]] = defaultdict(list)  # from sources with the same destinations
        for gpu, there in reached.items():
            flows[tuple(sorted(there, key=natural))].append(nodes[gpu].full)
        lines.append(f"  shared {identifier(name, 'g')} {_lanes(rate, count)} {{")
        lines += [f"    {listed(starts)} -> {listed(to)}" for to, starts in flows.items()]
        lines.append("  }")
    lines += [f"  measured {', '.join(document.measured)}"] if document.measured else []
    return [*lines, "}"], remarks


def _joins(document: EdgeDocument, nics: Mapping[NodeId, NodeId]) -> Iterator[Join]:
    """Yield the links, two directions as one, without links between NICs and their fabrics."""
    counts = Counter(document.links)
    for a, b, quality in list(counts):
        n = counts[a, b, quality]
        if n == 0 or nics.get(a) == b or nics.get(b) == a:
            continue
        both = min(n, counts[b, a, quality])
        yield from [(a, b, quality, "<->")] * both + [(a, b, quality, "->")] * (n - both)
        counts[a, b, quality] = 0
        counts[b, a, quality] -= both


def _fabric_of_nics(document: EdgeDocument) -> dict[NodeId, NodeId]:
    """Return the node that is each NIC's fabric; nothing if any link of a NIC leaves this in doubt."""
    nodes = document.nodes
    nics = {i for i, node in nodes.items() if node.type == "nic"}
    counts = Counter((src, dst) for src, dst, _ in document.links)
    quality = {(src, dst): quality for src, dst, quality in document.links}
    neighbours: dict[NodeId, set[NodeId]] = defaultdict(set)
    for a, b in counts:
        single = counts[a, b] == counts[b, a] == 1 and quality[a, b] == quality[b, a] and not quality[a, b].latency
        if (a in nics or b in nics) and not single:
            return {}
        neighbours[a].add(b)
        neighbours[b].add(a)
    fabric_of: dict[NodeId, NodeId] = {}
    for nic in nics:
        outside = [n for n in neighbours[nic] if nodes[n].type != "gpu"]
        inside = {nodes[n].number for n in neighbours[nic] if nodes[n].type == "gpu"}
        if len(outside) != 1 or inside != {nodes[nic].number} or nodes[outside[0]].number >= 0:
            return {}
        if quality[nic, outside[0]].rate is None:
            return {}
        fabric_of[nic] = outside[0]
    if any(not neighbours[f] <= nics or len(neighbours[f]) < 2 for f in fabric_of.values()):
        return {}
    return fabric_of


def _server_body(
    document: EdgeDocument, gpus: Sequence[EdgeNode], joins: Sequence[Join], nics: Mapping[NodeId, NodeId]
) -> Iterator[str]:
    """Yield the statements of a server's node type."""
    models = sorted({node.model for node in gpus if node.model})
    if models and all(c.isprintable() and c not in '"\\' for c in models[0]):
        yield f'model "{models[0]}"'
    yield f"gpus {len(gpus)}"
    rates = {src: quality for src, dst, quality in document.links if nics.get(src) == dst}
    own = [node for node in document.nodes.values() if node.number == gpus[0].number]
    for node in own:
        if node.id in nics:
            yield f"nic {node.local} {{ {_rate(rates[node.id])} }}"
        elif node.type != "gpu":
            yield f"{_WORDS.get(node.type, 'switch')} {node.local} {{ }}"
    yield from _statements(joins, {node.id: node.local for node in own}, nics)


def _statements(
    joins: Sequence[Join], names: Mapping[NodeId, str], nics: Mapping[NodeId, NodeId]
) -> Iterator[str]:
    """Yield ``link`` and ``attach``: a node with all nodes that it reaches alike, once for each repetition."""
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
        body = _rate(quality, word == "attach")
        rest = f" {{ {body} }}" if body else ""
        yield f"{word} {names[a]} {arrow} {listed([names[b] for b in others])}{rest}"


def _rate(quality: Quality, free: bool = False) -> str:
    """Return the properties of a link as text; ``free``: the link may be without a rate, else ValueError."""
    words = []
    if quality.rate is not None:
        words.append(f"bandwidth {_lanes(quality.rate, quality.count)}")
    elif not free:
        raise ValueError("a link without a rate (GBps null), which only a link to a NIC can be")
    if quality.latency:
        words.append(f"latency {time(quality.latency)}")
    if quality.kind:
        words.append(f"kind {identifier(quality.kind, 'k')}")
    return "; ".join(words)


def _lanes(total: Fraction, count: int) -> str:
    """Return ``25 GB/s x 2`` or the like; a quotient if a lane's share has no finite decimal."""
    lane = total / count
    exact = Fraction(decimal(lane / 10**9)) * 10**9 == lane
    return bandwidth(lane, count) if exact else f"({bandwidth(total)} / {count}) x {count}"


def edge_document(topology: Topology) -> dict[str, Any]:
    """Return the list of a topology, ready for JSON, with every wire; GPUs are numbered by rank."""

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
