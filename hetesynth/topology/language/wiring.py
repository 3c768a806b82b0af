"""Declarations -> parts, then parts -> wires, for one scope (an instance or the cluster).

Every part is declared, and every override applied, before the first wire is laid: wires see the final rates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from hetesynth.model.diagnostics import Span
from hetesynth.model.topology import NETWORK_KINDS
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.names import ZERO, HardwareGraph, Part, Rate, Scope, declared
from hetesynth.topology.language.networks import by_server, even
from hetesynth.topology.language.properties import RATES, lanes_of, measured, require, require_rate
from hetesynth.topology.language.syntax import Change, Detach, Element, Join, Property, Word
from hetesynth.topology.language.units import measure

MAX_WIRES = 1_000_000

_PART_KINDS = {"nic": "net", "fabric": "net", "router": "net"}  # of links at parts; of others the sort of part
_JOIN_KINDS = {"link": "direct", "mesh": "direct", "attach": "attach", "upi": "upi", "wan": "wan"}
_CAPABILITIES = ("multicast", "reduction")
_PLACES = ("ports", "port", "members", "join")


@dataclass(slots=True)
class Wiring:
    """Declares and connects the parts of one scope after the other in the same hardware."""

    hardware: HardwareGraph
    findings: Findings
    _fabric_of: dict[str, str] = field(default_factory=dict)

    # --- parts

    def declare(self, element: Element, scope: Scope, server: str) -> None:
        """Bring the parts of a switch, NIC, bus or fabric declaration into scope."""
        stated = {prop.name: prop for prop in element.properties}
        values = measured([p for p in element.properties if p.name not in _PLACES], self.findings)
        members = stated.get("members")
        two_sided = members is not None and _two_sided(members)
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
        """``set``: new rates, kinds, models or throughputs of kernels for parts in scope."""
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
        """The wires of a switch's ports, a bus's members or a fabric's NICs."""
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
                    if part.kind == "router" and other.kind == "nic":
                        away, towards = map(_slower, (there, back), _rates(other))
                    self.hardware.connect(other, part, away, towards)

    def detach(self, detach: Detach, scope: Scope) -> None:
        """Take away what joins the named parts so far."""
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
            if not _two_sided(members):
                self._pipe(part, part.inlet, part.outlet)
                self._lay_side(part, part.inlet, part.outlet, near)
                continue
            self._pipe(part, f"{part.name}.fwd.in", f"{part.name}.fwd.out")
            self._pipe(part, f"{part.name}.rev.in", f"{part.name}.rev.out", back=True)
            self._lay_side(part, f"{part.name}.fwd.in", f"{part.name}.rev.out", near)
            self._lay_side(part, f"{part.name}.rev.in", f"{part.name}.fwd.out", far)

    def _pipe(self, part: Part, entry: str, exit_: str, *, back: bool = False) -> None:
        """The one wire that everything crossing ``part`` in one direction shares, if it has one."""
        if entry != exit_ and not part.disabled:
            self.hardware.wires.append((entry, exit_, replace(_rates(part)[back], latency=part.latency)))

    def _lay_side(self, bus: Part, entry: str, exit_: str, members: Iterable[Part]) -> None:
        """Wires that never limit, between one side of a bus and its members."""
        side = Part(bus.name, bus.kind, bus.server, bus.span, disabled=bus.disabled, inlet=entry, outlet=exit_)
        free = Rate(bus.link_kind)
        for member in members:
            self.hardware.connect(member, side, free, free)

    def _others(self, part: Part, words: Iterable[Word], span: Span, scope: Scope) -> list[Part]:
        """The parts behind ``words`` that ``part`` joins, each once."""
        return [other for other in scope.resolve(words) if self._joins(part, other, span)]

    def _joins(self, part: Part, other: Part, span: Span) -> bool:
        """True where the pair may be joined; itself, or a second connection of the same pair, is a finding."""
        if other is part:
            self.findings.add("HS218", span, f"`{part.name}` is joined to itself")
        elif not self.hardware.join_once(part, other):
            self.findings.add("HS218", span, f"`{part.name}` and `{other.name}` are joined twice")
        else:
            return True
        return False

    # --- links

    def lay_join(self, join: Join, scope: Scope) -> None:
        """The wires of ``link``, ``upi``, ``wan``, ``attach`` or ``mesh``."""
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
    """The rates away from the GPUs and back."""
    there = Rate(part.link_kind, part.bandwidth, part.lanes)
    return there, Rate(part.link_kind, *part.receive) if part.receive else there


def _slower(port: Rate, nic: Rate) -> Rate:
    """What limits a NIC on a router: the port or its own rate."""
    if nic.bandwidth is None or port.bandwidth is None:
        return port
    return port if port.bandwidth * port.lanes <= nic.bandwidth * nic.lanes else nic


def _two_sided(members: Property) -> bool:
    return bool(members.far) or members.two_sided
