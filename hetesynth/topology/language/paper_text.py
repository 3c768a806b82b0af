"""Topology -> text in the paper form, as far as that form goes.

In: a ``Topology``. Out: the text, and what it cannot say. What is recognized: wires between GPUs of a server
(``direct``, ``mesh``), switches that join GPUs (``port``), NICs, PCIe switches and pipes between two sides
(``pcie``, ``switch``), a fabric that joins all NICs of its servers, wires between GPUs of two servers. The caller
compares the meaning of the text with that of the topology.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from hetesynth.model.topology import Topology, Wire
from hetesynth.topology.language.paper_statements import BETWEEN_NODES, IN_A_NODE
from hetesynth.topology.language.reachability import joined_sets

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
    """The text, and the reasons why there is none."""
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
