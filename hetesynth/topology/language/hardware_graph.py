"""The cluster under construction: parts by name and the wires between them; disabled ones are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from hetesynth.model.topology import Vertex, Wire
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
    """Parts in the order of declaration, wires (from, to, rate) in the order of construction."""

    parts: list[Part] = field(default_factory=list)
    wires: list[tuple[str, str, Rate]] = field(default_factory=list)
    inner: dict[str, list[str]] = field(default_factory=dict)  # the vertices of a bus: the ends of its pipes
    _joined: set[tuple[str, str]] = field(default_factory=set)

    def vertices_of(self, part: Part) -> list[str]:
        """The names of the vertices that ``part`` stands for."""
        return self.inner.get(part.name, [part.name])

    def gpus(self) -> list[Part]:
        """The working GPUs in the order of their ranks."""
        return [part for part in self.parts if part.kind == "gpu" and not part.disabled]

    def connect(self, left: Part, right: Part, there: Rate, back: Rate | None) -> None:
        """Wires between two parts; a switch, NIC or fabric puts its latency on the wires that leave it."""
        if left.disabled or right.disabled:
            return
        self.wires.append((left.outlet, right.inlet, _leaving(left, there)))
        if back is not None:
            self.wires.append((right.outlet, left.inlet, _leaving(right, back)))

    def join_once(self, left: Part, right: Part) -> bool:
        """True where the unordered pair is new, as it may be joined only once."""
        new = _pair(left, right) not in self._joined
        self._joined.add(_pair(left, right))
        return new

    def disconnect(self, pairs: Sequence[tuple[Part, Part]]) -> list[tuple[Part, Part]]:
        """Take away all wires between the parts of each pair; those that were never joined."""
        ends = self.vertices_of
        between = {(a, b): pair for pair in pairs for a in ends(pair[0]) for b in ends(pair[1])}
        cut: set[tuple[str, str]] = set()
        rest = []
        for wire in self.wires:
            pair = between.get(wire[:2]) or between.get((wire[1], wire[0]))
            if pair is None:
                rest.append(wire)
            else:
                cut.add(_pair(*pair))
        self.wires = rest
        cut |= self._joined & {_pair(a, b) for a, b in pairs}
        self._joined -= cut
        return [(a, b) for a, b in pairs if _pair(a, b) not in cut and not a.disabled and not b.disabled]

    def graph(self) -> tuple[tuple[Vertex, ...], tuple[Wire, ...]]:
        """The vertices, GPUs first, and the wires."""
        vertices = [Vertex(part.name, "gpu", part.server, part.model, part.host) for part in self.gpus()]
        for part in self.parts:
            if part.kind != "gpu" and not part.disabled:
                rest = (part.kind, part.server, part.model, part.host, part.capabilities)
                vertices += [Vertex(name, *rest) for name in self.vertices_of(part)]
        number = {vertex.name: i for i, vertex in enumerate(vertices)}
        wires = tuple(
            Wire(number[src], number[dst], rate.kind, rate.bandwidth, rate.lanes, rate.latency)
            for src, dst, rate in self.wires
        )
        return tuple(vertices), wires


def _pair(left: Part, right: Part) -> tuple[str, str]:
    return min(left.name, right.name), max(left.name, right.name)


def _leaving(part: Part, rate: Rate) -> Rate:
    """``rate`` with the latency of crossing ``part``, when that is one vertex (a pipe carries its own)."""
    if part.kind == "gpu" or part.inlet != part.outlet or not part.latency:
        return rate
    return Rate(rate.kind, rate.bandwidth, rate.lanes, rate.latency + part.latency)
