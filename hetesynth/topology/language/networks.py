"""Networks in one line -> the links, fabrics and switches they stand for, with the span of the network.

Parts are taken in the order in which they are named.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, product

from hetesynth.model.diagnostics import Span
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.names import Part, Scope, plain
from hetesynth.topology.language.properties import by_name, require
from hetesynth.topology.language.syntax import Amount, Element, Join, Network, Property, Word
from hetesynth.topology.language.units import count, ratio

MAX_SWITCHES = 4096
MAX_NETWORK_WIRES = 100_000
MAX_AXES = 16  # of a grid or torus: more than the logarithm of the number of GPUs

Statement = Element | Join
Servers = list[tuple[str, list[Part]]]


def statements_of(network: Network, scope: Scope, findings: Findings) -> list[Statement]:
    """What ``network`` stands for; nothing, with a finding, where it does not fit."""
    span = network.name.span
    if network.parts:
        parts = [Word(part.name.removeprefix(scope.prefix), span) for part in scope.resolve(network.parts)]
        pairs = _pairs(network, len(parts), findings) if parts else []
        findings.spend(len(pairs), network.span)
        return [Join("link", (parts[a],), (parts[b],), True, network.properties, network.span) for a, b in pairs]
    name = plain(network.name, "a network", findings)
    title = f"{network.kind} `{network.name.text}`"
    join = require(network.properties, "join", title, network.span, findings)
    nics = scope.resolve(join.words) if join else []
    wrong = next((part for part in nics if part.kind != "nic"), None)
    if join and wrong is not None:
        findings.add("HS211", join.words[0].span, f"`{wrong.name}` is no NIC")
        return []
    if name is None or not nics:
        return []
    fabrics = _Fabrics(network, name, by_server(nics), scope, findings)
    return {"rails": fabrics.rails, "leafspine": fabrics.leafspine}.get(network.kind, fabrics.dragonfly)()


# --- wires between the parts themselves


def _pairs(network: Network, parts: int, findings: Findings) -> list[tuple[int, int]]:
    """The pairs that are joined, by their places in the list of parts."""
    span = network.name.span
    if network.kind in ("ring", "hypercube") and (parts < 2 or (network.kind != "ring" and parts & (parts - 1))):
        findings.add("HS212", span, f"a {network.kind} cannot be of the parts named here; these are {parts}")
        return []
    if network.kind == "hypercube":
        bits = [1 << k for k in range(parts.bit_length() - 1)]
        return [(i, i | bit) for i in range(parts) for bit in bits if not i & bit]
    if network.kind == "ring":
        return list(_lattice((parts,), wrapped=True))
    findings.limit(len(network.sizes), MAX_AXES, "sizes", span)
    if math.prod(network.sizes) != parts:
        shown = "x".join(map(str, network.sizes))
        message = f"a {network.kind} of {shown} has {math.prod(network.sizes)} parts; these are {parts}"
        findings.add("HS212", span, message)
        return []
    return list(_lattice(network.sizes, wrapped=network.kind == "torus"))


def _lattice(sizes: Sequence[int], *, wrapped: bool) -> Iterator[tuple[int, int]]:
    """Neighbours along each axis, the last axis running fastest; where a size is 2 there is one wire, not two."""
    strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    for place in product(*map(range, sizes)):
        number = sum(x * stride for x, stride in zip(place, strides, strict=True))
        for x, size, stride in zip(place, sizes, strides, strict=True):
            if x + 1 < size:
                yield number, number + stride
            elif wrapped and size > 2:
                yield number, number - x * stride


# --- fabrics that join NICs


def by_server(parts: Sequence[Part]) -> Servers:
    """The parts of each server, in the order in which servers and parts are named."""
    servers: dict[str, list[Part]] = {}
    for part in parts:
        servers.setdefault(part.server, []).append(part)
    return list(servers.items())


def even(servers: Servers, number: int | None, what: str, span: Span, findings: Findings) -> int | None:
    """How many NICs every server has, ``number`` where stated; None, with a finding about one that differs."""
    expected = max(len(nics) for _, nics in servers) if number is None else number
    for server, nics in servers:
        if len(nics) != expected:
            other = f"{expected} are needed" if number is not None else f"others have {expected}"
            message = f"`{server}` has {len(nics)} NICs here, {other}: {what} take the i-th of every server"
            findings.add("HS212", span, message)
            return None
    return expected


@dataclass(slots=True)
class _Fabrics:
    """The fabrics and switches of one network, and the links between them."""

    network: Network
    name: str
    servers: Servers
    scope: Scope
    findings: Findings
    _properties: dict[str, Property] = field(init=False)
    _shared: tuple[Property, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._properties = by_name(self.network.properties, self.findings)
        self._shared = tuple(p for p in self.network.properties if p.name in ("latency", "kind"))

    def rails(self) -> list[Statement]:
        """Rail i joins the i-th NIC of every server; with ``spine`` a switch joins the rails."""
        span = self.network.name.span
        width = even(self.servers, None, "rails", span, self.findings)
        if width is None:
            return []
        rails = [f"{self.name}{i}" for i in range(width)]
        result: list[Statement] = []
        result += [self._fabric(rail, [nics[i] for _, nics in self.servers]) for i, rail in enumerate(rails)]
        spine = self._properties.get("spine")
        if spine is not None:
            ports = Property("ports", self.network.span, words=tuple(Word(rail, span) for rail in rails))
            result.append(self._switch(f"{self.name}_spine", (ports, _bandwidth(spine))))
        return result

    def leafspine(self) -> list[Statement]:
        """Leaf l joins the NICs of its servers, and every leaf is linked to every spine."""
        width, number = self._number("servers"), self._number("spines")
        if width is None or number is None:
            return []
        spines = [f"{self.name}_spine{s}" for s in range(number)]
        result: list[Statement] = [self._switch(spine, ()) for spine in spines]
        leaves = [self.servers[i : i + width] for i in range(0, len(self.servers), width)]
        self.findings.limit(len(leaves) * number, MAX_NETWORK_WIRES, "wires", self.network.span)
        for index, leaf in enumerate(leaves):
            nics = [nic for _, of_server in leaf for nic in of_server]
            rates = self._uplink(nics, number)
            if rates is None:
                return []
            name = f"{self.name}_leaf{index}"
            result.append(self._fabric(name, nics))
            result += [self._link(name, spine, rates) for spine in spines]
        return result

    def dragonfly(self) -> list[Statement]:
        """Routers of a group are all joined, and of each two groups one router each."""
        groups, routers = self._number("groups"), self._number("routers")
        local, far = self._needed("bandwidth", "100 GB/s"), self._needed("global", "100 GB/s")
        if groups is None or routers is None or local is None or far is None:
            return []
        each, rest = divmod(len(self.servers), groups * routers)
        if rest or not each:
            message = f"{len(self.servers)} servers cannot be spread over {groups} groups of {routers} routers"
            self.findings.add("HS212", self.network.name.span, message)
            return []
        self.findings.limit(groups * (groups + routers * routers), MAX_NETWORK_WIRES, "wires", self.network.span)
        names = [[f"{self.name}_g{g}r{r}" for r in range(routers)] for g in range(groups)]
        result: list[Statement] = []
        for number, router in enumerate(name for group in names for name in group):
            of_router = self.servers[number * each : (number + 1) * each]
            result.append(self._fabric(router, [nic for _, nics in of_router for nic in nics]))
        for group in names:
            result += [self._link(a, b, (_bandwidth(local),)) for a, b in combinations(group, 2)]
        for g, h in combinations(range(groups), 2):
            ends = names[g][(h - g - 1) % routers], names[h][(g - h - 1) % groups % routers]
            result.append(self._link(*ends, (_bandwidth(far),)))
        return result

    # --- their numbers

    def _needed(self, name: str, example: str) -> Property | None:
        title, span = f"{self.network.kind} `{self.name}`", self.network.span
        return require(self.network.properties, name, title, span, self.findings, f"{name} {example}")

    def _number(self, name: str) -> int | None:
        prop = self._needed(name, "4")
        return count(prop.amount, f"`{name}`", MAX_SWITCHES, self.findings) if prop and prop.amount else None

    def _uplink(self, nics: Sequence[Part], spines: int) -> tuple[Property, ...] | None:
        """The rate of a leaf's uplinks: stated, or what its NICs send and receive over all spines."""
        stated, over = self._properties.get("uplink"), self._properties.get("oversubscription")
        if (stated is None) == (over is None):
            message = f"leafspine `{self.name}` needs `uplink` or `oversubscription`, one of them"
            self.findings.add("HS209", self.network.span, message)
            return None
        if stated is not None:
            return (_bandwidth(stated),)
        factor = ratio(over.amount, "`oversubscription`", self.findings) if over and over.amount else None
        if over is None or factor is None:
            return None
        there = [(nic.bandwidth, nic.lanes) for nic in nics]
        back = [nic.receive or (nic.bandwidth, nic.lanes) for nic in nics]
        rates = [sum((rate * n for rate, n in way if rate), Fraction(0)) for way in (there, back)]
        if not all(rates):
            return None
        names = ("bandwidth",) if rates[0] == rates[1] else ("send", "receive")
        exact = [(name, rate / factor / spines) for name, rate in zip(names, rates, strict=False)]
        return tuple(  # a computed rate may be no decimal number
            Property(name, over.span, amount=Amount(str(rate), "B/s", over.span, expression=str(rate)))
            for name, rate in exact
        )

    # --- statements

    def _fabric(self, name: str, nics: Sequence[Part]) -> Element:
        span = self.network.name.span
        words = tuple(Word(nic.name.removeprefix(self.scope.prefix), span) for nic in nics)
        join = Property("join", self.network.span, words=words)
        return Element("fabric", Word(name, span), (join, *self._shared), self.network.span)

    def _switch(self, name: str, properties: tuple[Property, ...]) -> Element:
        word = Word(name, self.network.name.span)
        return Element("switch", word, (*self._shared, *properties), self.network.span)

    def _link(self, a: str, b: str, rates: tuple[Property, ...]) -> Join:
        span = self.network.name.span
        net = Property("kind", self.network.span, words=(Word("net", self.network.span),))
        kinds = tuple(p for p in self._shared if p.name == "kind") or (net,)
        return Join("link", (Word(a, span),), (Word(b, span),), True, (*rates, *kinds), self.network.span)


def _bandwidth(stated: Property) -> Property:
    return Property("bandwidth", stated.span, amount=stated.amount, lanes=stated.lanes)
