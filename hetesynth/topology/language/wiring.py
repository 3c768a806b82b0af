"""Declarations -> parts, then parts -> wires, for one scope (an instance or the cluster); networks in one line.

Every part is declared, and every override applied, before the first wire is laid: wires see the final rates.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations, product

from hetesynth.model.diagnostics import Span
from hetesynth.model.topology import NETWORK_KINDS
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.names import ZERO, HardwareGraph, Part, Rate, Scope, declared, plain
from hetesynth.topology.language.syntax import Amount, Change, Detach, Element, Join, Network, Property, Word
from hetesynth.topology.language.units import (
    RATES,
    by_name,
    count,
    lanes_of,
    measure,
    measured,
    ratio,
    require,
    require_rate,
)

MAX_WIRES = 1_000_000

_PART_KINDS = {"nic": "net", "fabric": "net", "router": "net"}  # of links at parts; of others the sort of part
_JOIN_KINDS = {"link": "direct", "mesh": "direct", "attach": "attach", "upi": "upi", "wan": "wan"}
_CAPABILITIES = ("multicast", "reduction")
_PLACES = ("ports", "port", "members", "join")
MAX_SWITCHES = 4096
MAX_NETWORK_WIRES = 100_000
MAX_AXES = 16  # of a grid or torus: more than the logarithm of the number of GPUs

Statement = Element | Join
Servers = list[tuple[str, list[Part]]]


@dataclass(slots=True)
class Wiring:
    """A builder that declares and connects the parts of one scope after the other in the same hardware."""

    hardware: HardwareGraph
    findings: Findings
    _fabric_of: dict[str, str] = field(default_factory=dict)

    # --- parts

    def declare(self, element: Element, scope: Scope, server: str) -> None:
        """Bring the parts of a switch, NIC, bus or fabric declaration into scope."""
        stated = {prop.name: prop for prop in element.properties}
        values = measured([p for p in element.properties if p.name not in _PLACES], self.findings)
        members = stated.get("members")
        two_sided = members is not None and bool(members.far or members.two_sided)
        directed = element.kind != "fabric" and (element.kind != "bus" or members is None or two_sided)
        needed = element.kind in ("nic", "bus") or "members" in stated or "ports" in stated
        if (needed and element.kind != "fabric") or (RATES & stated.keys() and not directed):
            title = f"{element.kind} `{element.name.text}`"
            require_rate(element.properties, title, element.span, self.findings, directed=directed)
        for local in declared(element.name, f"a {element.kind}", self.findings):
            part = Part(scope.prefix + local, element.kind, server, element.name.span)
            part.link_kind = values.kind or _PART_KINDS.get(element.kind, element.kind)
            part.kind_stated = values.kind is not None
            part.bandwidth, part.lanes = values.send or (values.bandwidth, values.lanes)
            part.receive = values.receive
            part.latency = values.latency or part.latency
            part.capabilities = tuple(name for name in _CAPABILITIES if name in stated)
            if two_sided:  # a pipe in each direction, each between an entry and an exit vertex
                ends = [f"{part.name}.{direction}.{end}" for direction in ("fwd", "rev") for end in ("in", "out")]
                part.outlet, part.inlet = ends[1], ends[2]
                self.hardware.inner[part.name] = ends
            elif members is not None or (part.kind == "fabric" and part.bandwidth is not None):
                part.inlet, part.outlet = f"{part.name}.in", f"{part.name}.out"
                self.hardware.inner[part.name] = [part.inlet, part.outlet]
            scope.declare(local, part, element.name.span)
            self.hardware.parts.append(part)

    def change(self, change: Change, scope: Scope) -> None:
        """Apply ``set``: new rates, kinds, models or throughputs of kernels for parts in scope."""
        values = measured(change.properties, self.findings)
        directed = bool(values.send or values.receive)
        rated = directed or values.bandwidth is not None
        of_gpus = (values.model, values.reduce, values.copy) != (None, None, None)
        for part in scope.resolve(change.targets):
            if part.kind == "gpu":
                wrong = rated or values.latency is not None or values.kind is not None
            else:
                wrong = of_gpus or (rated and part.bandwidth is None)
                wrong = wrong or (directed and (values.bandwidth is not None or part.kind == "fabric"))
            if wrong:
                self.findings.add("HS211", change.span, f"`{part.name}` has no such property of its own")
                continue
            values.put_on(part)
            if directed:
                back = part.receive or (part.bandwidth or ZERO, part.lanes)
                part.bandwidth, part.lanes = values.send or (part.bandwidth, part.lanes)
                part.receive = values.receive or back
            elif values.bandwidth is not None:
                part.bandwidth, part.lanes, part.receive = values.bandwidth, values.lanes, None
            part.latency = values.latency if values.latency is not None else part.latency
            if values.kind is not None:
                part.link_kind, part.kind_stated = values.kind, True

    # --- wires

    def lay_element(self, element: Element, scope: Scope) -> None:
        """Lay the wires of a switch's ports, a bus's members or a fabric's NICs."""
        parts = [scope.parts[name] for name in declared(element.name, "it", self.findings) if name in scope.parts]
        if element.kind == "bus" or any(prop.name == "members" for prop in element.properties):
            self._lay_bus(element, parts, scope)
        elif element.kind == "fabric":
            self._lay_fabric(element, parts, scope)
        elif element.kind != "nic":
            self._lay_switch(element, parts, scope)

    def _lay_switch(self, element: Element, parts: Sequence[Part], scope: Scope) -> None:
        ports = [p for p in element.properties if p.name in ("ports", "port")]
        if not ports and RATES & {prop.name for prop in element.properties}:
            require((), "ports", f"{element.kind} `{element.name.text}`", element.span, self.findings)
        for part in parts:
            for prop in ports:
                there, back = _rates(part)
                if prop.name == "port" and prop.amount is not None:  # with a rate of its own
                    bandwidth = measure(prop.amount, "bandwidth", "a bandwidth", self.findings)
                    there = back = Rate(part.link_kind, bandwidth, lanes_of(prop.lanes, self.findings))
                for other in self._others(part, prop.words, prop.span, scope):
                    away, towards = there, back
                    if part.kind == "router" and other.kind == "nic":  # what limits: the port or the NIC
                        ways = zip((there, back), _rates(other), strict=True)
                        away, towards = (nic if nic.slower_than(port) else port for port, nic in ways)
                    self.hardware.connect(other, part, away, towards)

    def detach(self, detach: Detach, scope: Scope) -> None:
        """Take away the wires that join the named parts so far."""
        pairs = scope.paired(detach.left, detach.right, detach.span)
        self.findings.spend(len(self.hardware.wires) + len(pairs), detach.span)
        if not self.hardware.disconnect(pairs) and pairs:
            message = f"nothing joins `{detach.left[0].text}` and `{detach.right[0].text}` here"
            self.findings.add("HS202", detach.span, message, "name parts that the node type joins")

    def _lay_fabric(self, element: Element, parts: Sequence[Part], scope: Scope) -> None:
        join = require(element.properties, "join", f"fabric `{element.name.text}`", element.span, self.findings)
        if join is None:
            return
        words, span = [join.words] * len(parts), join.words[0].span
        joined = scope.resolve(join.words) if len(parts) > 1 else []
        if len(parts) > 1 and all(part.kind == "nic" for part in joined):
            # of several fabrics the i-th joins the i-th NIC of every server
            servers = by_server(joined)
            if not servers or even(servers, len(parts), "fabrics", span, self.findings) is None:
                return
            names = [[nic.name.removeprefix(scope.prefix) for nic in nics] for _, nics in servers]
            words = [tuple(Word(of_server[i], span) for of_server in names) for i in range(len(parts))]
        for part, own in zip(parts, words, strict=True):
            self._pipe(part, part.inlet, part.outlet)
            others = self._others(part, own, join.span, scope)
            nics = []
            for other in others:
                first = self._fabric_of.setdefault(other.name, part.name) if other.kind == "nic" else ""
                if not first:
                    self.findings.add("HS211", span, f"a fabric joins NICs; `{other.name}` is none")
                elif first != part.name:
                    self.findings.add("HS218", span, f"`{other.name}` is already joined by fabric `{first}`")
                else:
                    nics.append(other)
            for nic in nics:
                kind = nic.link_kind if nic.kind_stated else part.link_kind
                self.hardware.connect(nic, part, *(replace(rate, kind=kind) for rate in _rates(nic)))

    def _lay_bus(self, element: Element, parts: Sequence[Part], scope: Scope) -> None:
        members = require(element.properties, "members", f"bus `{element.name.text}`", element.span, self.findings)
        if members is None:
            return
        for part in parts:
            near = self._others(part, members.words, members.span, scope)
            far = self._others(part, members.far, members.span, scope)
            ends = self.hardware.inner[part.name]
            for back, way in enumerate(zip(ends[::2], ends[1::2], strict=True)):
                self._pipe(part, *way, back=bool(back))
            free = Rate(part.link_kind)  # between a side and its members nothing limits
            for entry, exit_, others in ((ends[0], ends[-1], near), (ends[-2], ends[1], far)):
                side = replace(part, inlet=entry, outlet=exit_, latency=ZERO)
                for member in others:
                    self.hardware.connect(member, side, free, free)

    def _pipe(self, part: Part, entry: str, exit_: str, *, back: bool = False) -> None:
        """Lay the wire that all traffic through ``part`` in one direction shares, if the part has one."""
        if entry != exit_ and not part.disabled:
            self.hardware.wires.append((entry, exit_, replace(_rates(part)[back], latency=part.latency)))

    def _others(self, part: Part, words: Iterable[Word], span: Span, scope: Scope) -> list[Part]:
        """Return the parts that ``words`` name and ``part`` may join, each once."""
        return [other for other in scope.resolve(words) if self._joins(part, other, span)]

    def _joins(self, part: Part, other: Part, span: Span) -> bool:
        """Return True if the pair may be joined; a pair of one part, or a pair joined before, is a finding."""
        if other is part:
            self.findings.add("HS218", span, f"`{part.name}` is joined to itself")
        elif not self.hardware.join_once(part, other):
            self.findings.add("HS218", span, f"`{part.name}` and `{other.name}` are joined twice")
        else:
            return True
        return False

    def lay_join(self, join: Join, scope: Scope) -> None:
        """Lay the wires of ``link``, ``upi``, ``wan``, ``attach`` or ``mesh``."""
        if join.kind != "attach" or RATES & {prop.name for prop in join.properties}:
            directed = join.kind != "mesh" and join.both_ways
            require_rate(join.properties, f"a {join.kind}", join.span, self.findings, directed=directed)
        there, back = measured(join.properties, self.findings).rates(_JOIN_KINDS[join.kind])
        if join.kind == "mesh":
            parts = scope.resolve(join.left)
            pairs = list(combinations(parts, 2))
            if len(parts) == 1:
                self.findings.add("HS212", join.span, "a mesh needs at least two GPUs")
        else:
            pairs = scope.paired(join.left, join.right, join.span)
        self.findings.limit(len(self.hardware.wires) + len(pairs), MAX_WIRES, "wires", join.span)
        for a, b in pairs:
            if join.kind == "attach":
                wrong = b.kind != "nic" or a.kind == "nic" or a.kind in NETWORK_KINDS
            else:
                wrong = "bus" in (a.kind, b.kind) or (join.kind == "mesh" and a.kind != "gpu")
            if wrong:
                self.findings.add("HS211", join.span, f"`{join.kind}` cannot join `{a.name}` and `{b.name}`")
            elif join.kind == "attach" or a is b:
                wrong = not self._joins(a, b, join.span)
            if not wrong:
                self.hardware.connect(a, b, there, back if join.both_ways else None)


def _rates(part: Part) -> tuple[Rate, Rate]:
    """Return the rates of ``part`` away from the GPUs and back."""
    there = Rate(part.link_kind, part.bandwidth, part.lanes)
    return there, Rate(part.link_kind, *part.receive) if part.receive else there


def statements_of(network: Network, scope: Scope, findings: Findings) -> list[Statement]:
    """Return the statements that ``network`` stands for; none, with a finding, if it does not fit."""
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
    fabrics = _Fabrics(network, name, by_server(nics), scope, findings, by_name(network.properties, findings))
    return {"rails": fabrics.rails, "leafspine": fabrics.leafspine}.get(network.kind, fabrics.dragonfly)()


# --- wires between the parts themselves


def _pairs(network: Network, parts: int, findings: Findings) -> list[tuple[int, int]]:
    """Return the pairs that are joined, by their places in the list of parts."""
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
    """Yield neighbors along each axis, the last axis running fastest; a size of 2 has one wire, not two."""
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
    """Return the parts of each server, in the order in which servers and parts are named."""
    servers: dict[str, list[Part]] = {}
    for part in parts:
        servers.setdefault(part.server, []).append(part)
    return list(servers.items())


def even(servers: Servers, number: int | None, what: str, span: Span, findings: Findings) -> int | None:
    """Return the number of NICs of every server, ``number`` if stated; None, with a finding, if one differs."""
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
    properties: dict[str, Property]

    @property
    def _shared(self) -> tuple[Property, ...]:
        return tuple(p for p in self.network.properties if p.name in ("latency", "kind"))

    def rails(self) -> list[Statement]:
        """Return rails: rail i joins the i-th NIC of every server; with ``spine`` a switch joins the rails."""
        span = self.network.name.span
        width = even(self.servers, None, "rails", span, self.findings)
        if width is None:
            return []
        rails = [f"{self.name}{i}" for i in range(width)]
        result: list[Statement] = []
        result += [self._fabric(rail, [nics[i] for _, nics in self.servers]) for i, rail in enumerate(rails)]
        spine = self.properties.get("spine")
        if spine is not None:
            ports = Property("ports", self.network.span, words=tuple(Word(rail, span) for rail in rails))
            result.append(self._switch(f"{self.name}_spine", (ports, _bandwidth(spine))))
        return result

    def leafspine(self) -> list[Statement]:
        """Return leaves, each joining the NICs of its servers, and spines, each linked to every leaf."""
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
        """Return routers: those of a group are all joined, and of each two groups one router each."""
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

    def _needed(self, name: str, example: str) -> Property | None:
        title, span = f"{self.network.kind} `{self.name}`", self.network.span
        return require(self.network.properties, name, title, span, self.findings, f"{name} {example}")

    def _number(self, name: str) -> int | None:
        prop = self._needed(name, "4")
        return count(prop.amount, f"`{name}`", MAX_SWITCHES, self.findings) if prop and prop.amount else None

    def _uplink(self, nics: Sequence[Part], spines: int) -> tuple[Property, ...] | None:
        """Return the rate of a leaf's uplinks: as stated, or its NICs' sum by ``oversubscription`` and spines."""
        stated, over = self.properties.get("uplink"), self.properties.get("oversubscription")
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
        exact = [str(rate / factor / spines) for rate in rates]  # it may be no decimal number
        amounts = [Amount(rate, "B/s", over.span, expression=rate) for rate in exact]
        return tuple(Property(name, over.span, amount=a) for name, a in zip(names, amounts, strict=False))

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
