"""One form of the language -> the other, with the same meaning, or what keeps it from being said there.

In: a ``Source``. Out: text. The result is read again and compared with what the source says; where they differ, or
the other form has no words for something, ``HetesynthError`` HS250. Comments stand above the block they belong to.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from hetesynth.errors import HetesynthError
from hetesynth.model.topology import Topology, Wire
from hetesynth.topology.language import paper, syntax
from hetesynth.topology.language.elaborate import topology_of
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.layout import formatted, pieces_of
from hetesynth.topology.language.paper_statements import BETWEEN_NODES, IN_A_NODE
from hetesynth.topology.language.parser import parse
from hetesynth.topology.language.reachability import joined_sets
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


# --- text in the paper form: wires between GPUs of a server (`direct`, `mesh`), switches that join GPUs (`port`),
# NICs, PCIe switches and pipes between two sides (`pcie`, `switch`), a fabric that joins all NICs of its servers,
# wires between GPUs of two servers

_GB, _US = 10**9, Fraction(1, 10**6)
_Key = tuple[str, Fraction, int, Fraction]  # kind, bandwidth, lanes, alpha


class _InexpressibleError(Exception):
    """What the paper form has no words for."""


@dataclass(slots=True)
class _Node:
    """The statements of one node: entries by sort, and the link type of each sort."""

    gpus: int
    entries: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    kinds: dict[str, str] = field(default_factory=dict)

    def add(self, sort: str, ends: str, key: _Key) -> None:
        """One entry; the link type of its sort has to be that of the others."""
        if self.kinds.setdefault(sort, key[0]) != key[0]:
            raise _InexpressibleError(f"`{sort}` connections of two link types, {self.kinds[sort]} and {key[0]}")
        self.entries[sort].append(f"({ends} {'->' if sort in ('direct', 'mesh', 'port') else '>->'} {_rate(key)})")


def paper_text(topology: Topology) -> tuple[str, list[str]]:
    """The text in the paper form, and the reasons why there is none."""
    try:
        return "\n".join(_Writer(topology).lines()) + "\n", []
    except _InexpressibleError as reason:
        return "", [str(reason)]


@dataclass(slots=True)
class _Writer:
    """Recognizes the hardware vertex by vertex; what is recognized is crossed off."""

    topology: Topology
    ranks: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    out: dict[int, list[Wire]] = field(default_factory=lambda: defaultdict(list))
    into: dict[int, list[Wire]] = field(default_factory=lambda: defaultdict(list))
    behind: dict[int, list[int]] = field(default_factory=dict)  # GPUs of a bus's left side, by its vertices

    def lines(self) -> Iterator[str]:
        topology = self.topology
        if topology.groups:
            raise _InexpressibleError(f"the stated group `{topology.groups[0].name}`")
        if topology.measured:
            raise _InexpressibleError(f"that {topology.measured[0]} is measured")
        for rank, server in enumerate(topology.servers):
            self.ranks[server].append(rank)
        for wire in topology.wires:
            self.out[wire.src].append(wire)
            self.into[wire.dst].append(wire)
        for ranks in self.ranks.values():
            if ranks != list(range(ranks[0], ranks[0] + len(ranks))):
                raise _InexpressibleError("ranks of a server that do not follow each other")
        yield f"define nodenum = {len(self.ranks)}"
        if topology.chunk_bytes is not None:
            yield f"define chunk = {topology.chunk_bytes} B"
        earlier: dict[tuple[str, ...], str] = {}
        for number, server in enumerate(self.ranks, 1):
            body = tuple(self._node(server))
            like = earlier.setdefault(body, f"node{number}")
            if like == f"node{number}":
                yield f"define {like} = {body[0]}"
                yield from body[1:]
            else:
                yield f"define node{number} = {like}"
        yield from self._network()

    # --- a node

    def _node(self, server: str) -> Iterator[str]:
        ranks = self.ranks[server]
        node = _Node(len(ranks))
        self._wires(node, ranks)
        buses = self._buses(server)
        kinds = [vertex.kind for vertex in self.topology.vertices]
        for bus in buses:  # between GPUs and at most one NIC it is a PCIe switch
            pipe, near, far = self._ends(bus)
            beyond = [kinds[vertex] for vertex in far]
            if (
                all(kinds[gpu] == "gpu" for gpu in near)
                and beyond.count("nic") <= 1
                and {*beyond} <= {"nic", "bus"}
            ):
                node.add("pcie", _list(near, ranks[0]), _key(pipe, pipe.latency))
                self.behind[pipe.dst] = near
        for number, vertex in enumerate(self.topology.vertices):
            if vertex.server == server and number >= self.topology.ranks:
                if vertex.kind == "switch":
                    gpus = [wire.src for wire in self.into[number]]
                    keys = {_key(w, Fraction(0)) for w in [*self.into[number], *self.out[number]]}
                    alphas = {wire.latency for wire in self.out[number]}
                    if any(kinds[gpu] != "gpu" for gpu in gpus) or len(keys) != 1 or len(alphas) != 1:
                        reason = f"switch `{vertex.name}`, whose ports are not all GPUs at one rate"
                        raise _InexpressibleError(reason)
                    node.add("port", _list(gpus, ranks[0]), (*keys.pop()[:3], alphas.pop()))
                elif vertex.kind == "nic":
                    self._nic(node, number, ranks[0])
                elif vertex.kind != "bus":
                    raise _InexpressibleError(f"{vertex.kind} `{vertex.name}`")
        for bus in buses:  # any other is a pipe between GPUs, or the PCIe switches that they are behind
            pipe, near, far = self._ends(bus)
            if pipe.dst not in self.behind:
                left, right = (_list(self._gpus(side, bus), ranks[0]) for side in (near, far))
                node.add("switch", f"({left}, {right})", _key(pipe, pipe.latency))
        yield str(len(ranks))
        models = {self.topology.models[rank] for rank in ranks}
        reductions, copies = zip(*{self.topology.throughputs[rank] for rank in ranks}, strict=True)
        if any(copy is not None for copy in copies):
            raise _InexpressibleError("what a thread block copies")
        if len(models) > 1 or len(reductions) > 1:
            raise _InexpressibleError("GPUs of one server with unlike models or reductions")
        model = models.pop()
        if model and not re.fullmatch(r"[A-Za-z_]\w*", model):
            raise _InexpressibleError(f'the model "{model[:40]}", which is no word')
        if model:
            yield f"define model = {model}"
        if reductions[0] is not None:
            yield f"define reduce = {_decimal(reductions[0] / _GB)} GB/s"
        sorts = [sort for sort in IN_A_NODE if node.entries[sort]]
        if sorts:
            each = ",\n  ".join(f"{sort} => [{', '.join(node.entries[sort])}]" for sort in sorts)
            yield f"define bandwidth = {{{each}}}"
        types = [f"{sort} => {node.kinds[sort]}" for sort in sorts if node.kinds[sort] != IN_A_NODE[sort]]
        if types:
            yield f"define linktype = {{{', '.join(types)}}}"

    def _wires(self, node: _Node, ranks: Sequence[int]) -> None:
        """Wires between GPUs: cliques of one rate as a mesh, the others one by one."""
        alike: dict[_Key, list[tuple[int, int]]] = defaultdict(list)
        for rank in ranks:
            for wire in self.out[rank]:
                if wire.dst in ranks and wire.dst < self.topology.ranks:
                    alike[_key(wire, wire.latency)].append((wire.src - ranks[0], wire.dst - ranks[0]))
        for key, pairs in alike.items():
            for part in joined_sets(pairs, set):
                ends = sorted({end for pair in part for end in pair})
                if sorted(part) == [(a, b) for a in ends for b in ends if a != b]:
                    node.add("mesh", _list(ends, 0), key)
                else:
                    for a, b in part:
                        node.add("direct", f"({a},{b})", key)

    def _nic(self, node: _Node, number: int, first: int) -> None:
        """A NIC with the GPUs that are attached to it, or are behind its PCIe switch."""
        name = self.topology.vertices[number].name
        gpus: list[int] = []
        up = [wire for wire in self.out[number] if self.topology.vertices[wire.dst].kind == "fabric"]
        for wire in self.into[number]:
            if self.topology.vertices[wire.src].kind == "fabric":
                continue
            limits = wire.bandwidth is not None
            if limits or (wire.src not in self.behind and wire.src >= self.topology.ranks):
                raise _InexpressibleError(f"NIC `{name}`, which serves more than GPUs or limits their way to it")
            gpus += self.behind.get(wire.src, [wire.src])
        if not up or not gpus:
            return  # no link leads over it
        if len(up) > 1:
            raise _InexpressibleError(f"NIC `{name}`, which several fabrics join")
        node.add("nic", _list(sorted(gpus), first), _key(up[0], up[0].latency))

    # --- buses

    def _ends(self, bus: str) -> tuple[Wire, list[int], list[int]]:
        """The pipe of a bus with two sides, and what is on its left and its right."""
        by_name = {v.name: i for i, v in enumerate(self.topology.vertices) if v.name.startswith(f"{bus}.")}
        entry, back = by_name.get(f"{bus}.fwd.in"), by_name.get(f"{bus}.rev.in")
        if entry is None or back is None:
            raise _InexpressibleError(f"bus `{bus}`, one medium of all its members")
        pipe = next(wire for wire in self.out[entry])
        return pipe, [wire.src for wire in self.into[entry]], [wire.src for wire in self.into[back]]

    def _gpus(self, side: Sequence[int], bus: str) -> list[int]:
        """The GPUs on a side of a bus, those behind PCIe switches included."""
        gpus: list[int] = []
        for vertex in side:
            if vertex >= self.topology.ranks and vertex not in self.behind:
                raise _InexpressibleError(f"bus `{bus}`, which joins more than GPUs and PCIe switches")
            gpus += self.behind.get(vertex, [vertex])
        return gpus

    # --- between nodes

    def _network(self) -> Iterator[str]:
        number = {server: i for i, server in enumerate(self.ranks, 1)}
        joined: set[str] = set()
        for index, vertex in enumerate(self.topology.vertices):
            if vertex.server or vertex.kind == "bus":
                continue
            if vertex.kind != "fabric":
                raise _InexpressibleError(f"{vertex.kind} `{vertex.name}` of the cluster")
            nics = [wire.dst for wire in self.out[index]]
            if any(self.topology.vertices[nic].kind != "nic" for nic in nics):
                raise _InexpressibleError(f"fabric `{vertex.name}`, which has a bandwidth or joins other fabrics")
            servers = dict.fromkeys(self.topology.vertices[nic].server for nic in nics)
            twice = [server for server in servers if server in joined]
            if twice:
                raise _InexpressibleError(f"server `{twice[0]}`, whose NICs are on several fabrics")
            joined.update(servers)
            alphas = {wire.latency for wire in self.out[index]}
            if len(alphas) != 1 or len(servers) < 2:
                raise _InexpressibleError(f"fabric `{vertex.name}`")
            yield f"define internode = ({', '.join(f'node{number[server]}' for server in servers)})"
            alpha = alphas.pop()
            if alpha:
                yield f"define interlatency = {{switch => {_decimal(alpha / _US)} us}}"
        # between GPUs of two servers: buses, and wires by link type
        pairs: dict[tuple[str, ...], list[str]] = defaultdict(list)
        of, ranks = self.topology.servers, self.topology.ranks
        for bus in self._buses(""):
            pipe, *ends = self._ends(bus)
            left, right = (self._gpus(side, bus) for side in ends)
            (a, *more), (b, *others) = ({of[gpu] for gpu in side} for side in (left, right))
            if more or others or a == b:
                raise _InexpressibleError(f"bus `{bus}`, whose sides are not one server each")
            lists = f"{_list(left, self.ranks[a][0])}, {_list(right, self.ranks[b][0])}"
            pairs[a, b, "switch", pipe.kind, bus] = [f"(({lists}) >-> {_rate(_key(pipe, pipe.latency))})"]
        for wire in self.topology.wires:
            if wire.src < ranks and wire.dst < ranks and of[wire.src] != of[wire.dst]:
                a, b = of[wire.src], of[wire.dst]
                gpus = f"({wire.src - self.ranks[a][0]},{wire.dst - self.ranks[b][0]})"
                pairs[a, b, "direct", wire.kind, ""].append(f"({gpus} -> {_rate(_key(wire, wire.latency))})")
        for (a, b, sort, kind, _), entries in pairs.items():
            yield f"define internode = (node{number[a]}, node{number[b]})"
            yield f"define interbandwidth = {{{sort} => [{', '.join(entries)}]}}"
            if kind != BETWEEN_NODES[sort]:
                yield f"define interlinktype = {{{sort} => {kind}}}"

    def _buses(self, server: str) -> list[str]:
        """The buses of a server, or of the cluster, by name."""
        vertices = self.topology.vertices
        return sorted({v.name.rsplit(".", 2)[0] for v in vertices if v.kind == "bus" and v.server == server})


def _key(wire: Wire, alpha: Fraction) -> _Key:
    if wire.bandwidth is None:
        raise _InexpressibleError("a wire between parts that limits nothing")
    return wire.kind, wire.bandwidth, wire.lanes, alpha


def _rate(key: _Key) -> str:
    _, bandwidth, lanes, alpha = key
    return f"({_decimal(bandwidth / _GB)},{lanes}{f',{_decimal(alpha / _US)}' if alpha else ''})"


def _decimal(value: Fraction) -> str:
    """``value`` with a decimal point, exactly."""
    digits = next((n for n in range(13) if (value * 10**n).denominator == 1), None)
    if digits is None:
        raise _InexpressibleError(f"the number {value}, which has no end as a decimal")
    text = str(int(value * 10**digits)).rjust(digits + 1, "0")
    return f"{text[:-digits]}.{text[-digits:]}" if digits else text


def _list(numbers: Sequence[int], first: int) -> str:
    return f"({','.join(str(number - first) for number in numbers)})"
