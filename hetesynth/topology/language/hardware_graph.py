"""The cluster under construction: parts by name and the wires between them.

In: parts and wires one by one. Out: vertices and wires of a ``Topology``, GPUs first.
Disabled parts and their wires are left out. Knows nothing of the source's syntax.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from fractions import Fraction

from hetesynth.model.topology import NETWORK_KINDS, Vertex, VertexKind, Wire
from hetesynth.topology.language.names import Part

ZERO = Fraction(0)


@dataclass(frozen=True, slots=True)
class Rate:
    """What a wire can carry: bytes per second a lane (None: never limits), lanes, seconds, and its kind."""

    kind: str
    bandwidth: Fraction | None = None
    lanes: int = 1
    latency: Fraction = ZERO


@dataclass(slots=True)
class HardwareGraph:
    """Parts in the order of declaration, wires in the order of construction."""

    parts: list[Part] = field(default_factory=list)
    _wires: list[tuple[str, str, Rate]] = field(default_factory=list)
    _inner: dict[str, list[tuple[str, VertexKind]]] = field(default_factory=dict)
    _joined: set[tuple[str, str]] = field(default_factory=set)
    _served: dict[str, int] = field(default_factory=dict)

    def add(self, part: Part) -> None:
        """Take in a part; its vertex is its name unless ``split`` says otherwise."""
        self.parts.append(part)

    def split(self, part: Part, vertices: list[str]) -> None:
        """Let ``part`` stand for several vertices (a bus: the ends of its pipes)."""
        self._inner[part.name] = [(vertex, part.kind) for vertex in vertices]

    def wire(self, src: str, dst: str, rate: Rate) -> None:
        """One direction of a connection between two vertices."""
        self._wires.append((src, dst, rate))

    def connect(self, left: Part, right: Part, there: Rate, back: Rate | None) -> None:
        """Wires between two parts; a switch, NIC or fabric puts its latency on the wires that leave it."""
        if left.disabled or right.disabled:
            return
        self.wire(left.outlet, right.inlet, _leaving(left, there))
        if back is not None:
            self.wire(right.outlet, left.inlet, _leaving(right, back))

    def join_once(self, left: Part, right: Part) -> bool:
        """Whether the unordered pair is new, where it may be joined only once; notes which NICs are used."""
        key = _pair(left, right)
        if key in self._joined:
            return False
        self._joined.add(key)
        self._serve(left, right, 1)
        return True

    def vertices_of(self, part: Part) -> list[str]:
        """The names of the vertices that ``part`` stands for."""
        return [vertex for vertex, _ in self._inner.get(part.name, [(part.name, part.kind)])]

    def kinds(self) -> dict[str, VertexKind]:
        """The kind of each vertex, by name."""
        return {vertex: part.kind for part in self.parts for vertex in self.vertices_of(part)}

    def wires(self) -> Sequence[tuple[str, str, Rate]]:
        """The wires so far: from, to, rate."""
        return self._wires

    def change(self, index: int, rate: Rate) -> None:
        """Give wire ``index`` another rate."""
        src, dst, _ = self._wires[index]
        self._wires[index] = (src, dst, rate)

    def drop(self, indices: Set[int]) -> None:
        """Leave out these wires."""
        self._wires = [wire for i, wire in enumerate(self._wires) if i not in indices]

    def disconnect(self, pairs: Sequence[tuple[Part, Part]]) -> list[tuple[Part, Part]]:
        """Take away all wires between the parts of each pair; those that were never joined."""
        ends = self.vertices_of
        between = {(a, b): pair for pair in pairs for a in ends(pair[0]) for b in ends(pair[1])}
        cut: set[tuple[str, str]] = set()
        rest = []
        for wire in self._wires:
            pair = between.get(wire[:2]) or between.get((wire[1], wire[0]))
            if pair is None:
                rest.append(wire)
            else:
                cut.add(_pair(*pair))
        self._wires = rest
        for left, right in pairs:
            if _pair(left, right) in self._joined:
                cut.add(_pair(left, right))
                self._joined.discard(_pair(left, right))
                self._serve(left, right, -1)
        return [(a, b) for a, b in pairs if _pair(a, b) not in cut and not a.disabled and not b.disabled]

    def _serve(self, left: Part, right: Part, change: int) -> None:
        for part, other in ((left, right), (right, left)):
            if part.kind == "nic" and other.kind != "nic" and other.kind not in NETWORK_KINDS:
                self._served[part.name] = self._served.get(part.name, 0) + change

    @property
    def served(self) -> set[str]:
        """The NICs that something of a server is joined to, out of order or not."""
        return {name for name, users in self._served.items() if users}

    def joined(self) -> set[str]:
        """The vertices that wires end at."""
        return {end for src, dst, _ in self._wires for end in (src, dst)}

    @property
    def size(self) -> int:
        """The number of wires so far."""
        return len(self._wires)

    def gpus(self) -> list[Part]:
        """The working GPUs in the order of their ranks."""
        return [part for part in self.parts if part.kind == "gpu" and not part.disabled]

    def pods(self) -> dict[str, str]:
        """The pod of every vertex that belongs to one, by name."""
        return {
            vertex: part.pod
            for part in self.parts
            if part.pod and not part.disabled
            for vertex in (name for name, _ in self._inner.get(part.name, [(part.name, part.kind)]))
        }

    def graph(self) -> tuple[tuple[Vertex, ...], tuple[Wire, ...]]:
        """The vertices, GPUs first, and the wires."""
        gpus = self.gpus()
        others = [part for part in self.parts if part.kind != "gpu" and not part.disabled]
        vertices = [Vertex(part.name, "gpu", part.server, part.model, part.host) for part in gpus]
        for part in others:
            inner = self._inner.get(part.name, [(part.name, part.kind)])
            vertices += [
                Vertex(name, kind, part.server, part.model, part.host, part.capabilities) for name, kind in inner
            ]
        number = {vertex.name: i for i, vertex in enumerate(vertices)}
        wires = tuple(
            Wire(number[src], number[dst], rate.kind, rate.bandwidth, rate.lanes, rate.latency)
            for src, dst, rate in self._wires
        )
        return tuple(vertices), wires


def _pair(left: Part, right: Part) -> tuple[str, str]:
    return min(left.name, right.name), max(left.name, right.name)


def _leaving(part: Part, rate: Rate) -> Rate:
    """``rate`` with the latency of crossing ``part``, when that is one vertex (a pipe carries its own)."""
    if part.kind == "gpu" or part.inlet != part.outlet or not part.latency:
        return rate
    return Rate(rate.kind, rate.bandwidth, rate.lanes, rate.latency + part.latency)
