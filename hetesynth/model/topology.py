"""The physical cluster: what is plugged into what, at which rate, and the GPU-to-GPU links over it.

Units: bandwidth in bytes per second and one direction, latency in seconds, both exact fractions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal

Rank = int
VertexKind = Literal["gpu", "switch", "nic", "bus", "fabric", "cpu", "numa", "pcie", "router"]

NETWORK_KINDS: frozenset[VertexKind] = frozenset({"fabric", "router"})
"""What stands between servers, whatever joins it."""

HOST_KINDS: frozenset[VertexKind] = frozenset({"cpu", "numa", "pcie"})
"""What data crosses inside a server where GPUs and NICs are not joined more directly."""

WAN_LATENCY = Fraction(10, 10**6)
"""Seconds: a wire or link of so much joins data centres. It is that of 2 km of fibre."""


@dataclass(frozen=True, slots=True)
class Vertex:
    """A GPU, or a piece of hardware that forwards without storing: switch, NIC, bus, fabric, CPU, router.

    ``host``: the name of the machine it is in, where it is stated; ``capabilities``: what a switch can do
    besides forwarding, ``multicast`` and ``reduction``.
    """

    name: str
    kind: VertexKind
    server: str = ""
    model: str = ""
    host: str = ""
    capabilities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wire:
    """A direction of a physical connection between two vertices.

    ``bandwidth`` is that of one lane; ``None`` means the wire never limits (a GPU's own PCIe stub, say).
    """

    src: int
    dst: int
    kind: str
    bandwidth: Fraction | None
    lanes: int = 1
    latency: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True)
class Link:
    """A path of wires over which one GPU sends to another without storing in a third.

    ``bandwidth`` and ``lanes`` are those of the slowest wire, ``latency`` the sum along the path (alpha).
    Several links may join the same pair (NVLink and PCIe): the graph is a multigraph.
    """

    src: Rank
    dst: Rank
    kind: str
    wires: tuple[int, ...]
    bandwidth: Fraction
    lanes: int
    latency: Fraction

    @classmethod
    def over(cls, src: Rank, dst: Rank, path: Sequence[int], wires: Sequence[Wire]) -> Link:
        """Return the link along ``path`` (wire indices, in order); its rate is that of the slowest wire."""
        limiting = [(w, w.bandwidth) for w in (wires[i] for i in path) if w.bandwidth is not None]
        if not limiting:
            raise ValueError(f"link {src}->{dst}: no wire on its path has a bandwidth")
        slowest, bandwidth = min(limiting, key=lambda pair: pair[0].lanes * pair[1])
        latency = sum((wires[i].latency for i in path), Fraction(0))
        return cls(src, dst, slowest.kind, tuple(path), bandwidth, slowest.lanes, latency)


@dataclass(frozen=True, slots=True)
class SharedGroup:
    """A stated limit on links together that no single wire expresses (HeteCCL 4.1: the group (E_g, C_g))."""

    name: str
    kind: str
    bandwidth: Fraction
    links: tuple[int, ...]
    lanes: int = 1


@dataclass(frozen=True, slots=True)
class Topology:
    """A cluster. Vertex ``i`` for ``i < len(gpus)`` is the GPU of rank ``i``; the rest forward.

    ``reduce_bandwidth[rank]`` is the throughput of a reduction kernel in bytes per second (1/gamma), or None
    where it is not stated. ``copy_bandwidth[rank]`` is what one thread block copies, alike. ``chunk_bytes`` is the
    chunk size the source asks for, if any. ``measured``: kinds of wires, in lower case, whose rates are what
    transfers get; rates of other kinds are of data sheets. ``whole``: the cluster, where this topology has only
    some of its links; ``numbers``: the indices of these links in ``whole``.
    """

    name: str
    vertices: tuple[Vertex, ...]
    ranks: int
    wires: tuple[Wire, ...]
    links: tuple[Link, ...]
    groups: tuple[SharedGroup, ...] = ()
    reduce_bandwidth: tuple[Fraction | None, ...] = ()
    copy_bandwidth: tuple[Fraction | None, ...] = ()
    chunk_bytes: int | None = None
    notes: tuple[str, ...] = ()
    measured: tuple[str, ...] = ()
    whole: Topology | None = field(default=None, compare=False, repr=False)
    numbers: tuple[int, ...] = ()

    def __hash__(self) -> int:
        """Return a hash of the name, the vertices and the numbers of wires and links: fractions hash slowly."""
        return hash((self.name, self.vertices, len(self.wires), len(self.links)))

    @property
    def servers(self) -> tuple[str, ...]:
        """The server of each rank, by name."""
        return tuple(vertex.server for vertex in self.vertices[: self.ranks])

    @property
    def throughputs(self) -> tuple[tuple[Fraction | None, Fraction | None], ...]:
        """The bytes per second of a reduction kernel and a copying thread block of each rank; None: not stated."""
        nothing: tuple[Fraction | None, ...] = (None,) * self.ranks
        return tuple(zip(self.reduce_bandwidth or nothing, self.copy_bandwidth or nothing, strict=True))

    @property
    def models(self) -> tuple[str, ...]:
        """The model of each rank's GPU, "" where it is not stated."""
        return tuple(vertex.model for vertex in self.vertices[: self.ranks])

    def reversed(self) -> Topology:
        """Return the hardware with every direction turned around: on it a reduction is a copy. Indices stay."""
        wires = tuple(replace(w, src=w.dst, dst=w.src) for w in self.wires)
        links = tuple(replace(x, src=x.dst, dst=x.src, wires=x.wires[::-1]) for x in self.links)
        return replace(self, wires=wires, links=links)

    def part(self, kept: Sequence[int]) -> Topology:
        """Return the topology with the links ``kept`` only, without groups that limit none of these links."""
        new = {old: number for number, old in enumerate(kept)}
        groups = (replace(g, links=tuple(new[i] for i in g.links if i in new)) for g in self.groups)
        return replace(
            self,
            links=tuple(self.links[i] for i in kept),
            groups=tuple(group for group in groups if group.links),
            whole=self.whole or self,
            numbers=tuple(self.numbers[i] if self.numbers else i for i in kept),
        )

    def wire_name(self, index: int) -> str:
        """Return the name of the wire, from the names of its ends: ``a.gpu0->a.nvswitch``."""
        wire = self.wires[index]
        return f"{self.vertices[wire.src].name}->{self.vertices[wire.dst].name}"
