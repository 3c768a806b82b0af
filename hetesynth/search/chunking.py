"""Chunking (HeteCCL 4.1): from physical rates to capacities in chunks per step.

A lane moves one chunk in tau = alpha + S * beta (the alpha-beta model of 4.2). A link or group of n lanes carries
C = round(tau_ref / tau) * n chunks per step (eq. 1). For a wire or group that several links share, alpha is the
smallest of those links: the capacity of the fastest use. Each capacity has the error that its rounding causes.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Literal

from hetesynth.errors import HetesynthError
from hetesynth.model.collective import Collective
from hetesynth.model.problem import Arc, Problem, Resource, Segment
from hetesynth.model.topology import Topology

Rounding = Literal["ceil", "floor", "nearest"]
ROUNDINGS: tuple[Rounding, ...] = ("ceil", "floor", "nearest")
DEFAULT_CHUNK_BYTES = 1_000_000
MAX_CAPACITY = 1_000_000
LARGE_ROUNDING_ERROR = 0.25  # share of the rate, above which it is pointed out


@dataclass(frozen=True, slots=True)
class ChunkingOptions:
    """The options of quantizing. ``chunk_bytes``: S_c; by default what the topology states, else 1 MB.
    ``reference``: tau_ref; ``"slowest"`` (the slowest link type: the paper's choice), the kind of a link
    (``"nic"``), or a time in seconds. ``latencies``: whether alpha counts in tau."""

    chunk_bytes: int | None = None
    reference: str | Fraction = "slowest"
    rounding: Rounding = "ceil"
    latencies: bool = True


@dataclass(frozen=True, slots=True)
class Capacity:
    """The capacity C of a link, wire or group; ``tau``: seconds per chunk and lane. ``error``: the promised over
    the real capacity, minus 1; if positive, the step model hopes for more than the hardware gives."""

    name: str
    kind: str
    chunks: int
    error: Fraction
    lanes: int
    tau: Fraction


@dataclass(frozen=True, slots=True)
class Chunking:
    """The capacities of a topology. ``links[i]`` belongs to link i, ``wires[i]`` to wire i (None: no limit)."""

    topology: Topology
    options: ChunkingOptions
    chunk_bytes: int
    tau_ref: Fraction
    reference: str
    links: tuple[Capacity, ...]
    wires: tuple[Capacity | None, ...]
    groups: tuple[Capacity, ...]

    def link_capacities(self) -> list[Capacity]:
        """The different capacities of links, in order of first appearance."""
        return list({id(c): c for c in self.links}.values())

    def shared(self) -> list[Capacity]:
        """The capacities that several links draw from: wires and groups."""
        crossing = Counter(chain.from_iterable(link.wires for link in self.topology.links))
        wires = [c for w, c in enumerate(self.wires) if c is not None and crossing[w] > 1]
        return [*wires, *self.groups]

    def worst_error(self) -> Capacity | None:
        """The capacity with the largest rounding error, by magnitude."""
        return max([*self.link_capacities(), *self.shared()], key=lambda c: (abs(c.error), c.name), default=None)

    def problem(
        self, collective: Collective, *, exclusive_reduction: bool = False, max_peers: int | None = None
    ) -> Problem:
        """The synthesis problem of ``collective`` on this graph."""
        topology = self.topology
        segments = tuple(
            Segment(w.src, w.dst, None if c is None else c.chunks, topology.wire_name(i))
            for i, (w, c) in enumerate(zip(topology.wires, self.wires, strict=True))
        )
        arcs = tuple(
            Arc(link.src, link.dst, capacity.chunks, link.wires)
            for link, capacity in zip(topology.links, self.links, strict=True)
        )
        groups = tuple(
            Resource(g.name, g.links, c.chunks) for g, c in zip(topology.groups, self.groups, strict=True)
        )
        return Problem(
            ranks=topology.ranks,
            vertices=len(topology.vertices),
            segments=segments,
            arcs=arcs,
            groups=groups,
            collective=collective,
            exclusive_reduction=exclusive_reduction,
            max_peers=max_peers,
            servers=topology.servers,
        )


def chunk(topology: Topology, options: ChunkingOptions | None = None) -> Chunking:
    """Quantize ``topology``. Raises HetesynthError when the reference does not fit or a capacity is absurd."""
    options = options or ChunkingOptions()
    size = options.chunk_bytes or topology.chunk_bytes or DEFAULT_CHUNK_BYTES
    if not topology.links:
        raise HetesynthError(
            "this cluster has no links between GPUs",
            code="HS401",
            help="join the GPUs by a link, a switch or a fabric",
        )

    def tau(alpha: Fraction, bandwidth: Fraction) -> Fraction:
        """Return alpha + S * beta in seconds, exactly; S * beta where latencies do not count."""
        return size / bandwidth + (alpha if options.latencies else 0)

    tau_ref, reference = _reference(topology, options.reference, tau)

    def capacity(name: str, kind: str, seconds: Fraction, lanes: int, place: str) -> Capacity:
        """Return the capacity by eq. 1, at least one chunk per lane. HetesynthError HS402: it is too large."""
        exact = tau_ref / seconds
        per_lane = max(1, _ROUND[options.rounding](exact))
        chunks = per_lane * lanes
        if chunks > MAX_CAPACITY:
            raise HetesynthError(
                f"{place} would carry {chunks} chunks in one step of {float(tau_ref):.3g} s; at most "
                f"{MAX_CAPACITY} are handled",
                code="HS402",
                help=f"check the units of {place} and of the slowest link, or state a shorter step with --tau-ref",
            )
        return Capacity(name, kind, chunks, Fraction(per_lane) / exact - 1, lanes, seconds)

    by_look: dict[tuple[str, int, int, int], Capacity] = {}
    least_alpha: list[Fraction | None] = [None] * len(topology.wires)
    links = []
    for link in topology.links:
        look = (link.kind, id(link.bandwidth), id(link.latency), link.lanes)  # hashing fractions is slow
        if look not in by_look:
            seconds = tau(link.latency, link.bandwidth)
            by_look[look] = capacity(link.kind, link.kind, seconds, link.lanes, f"a {link.kind} link")
        links.append(by_look[look])
        for w in link.wires:
            least = least_alpha[w]
            if least is not link.latency and (least is None or link.latency < least):
                least_alpha[w] = link.latency
    wires: list[Capacity | None] = []
    for w, (wire, alpha) in enumerate(zip(topology.wires, least_alpha, strict=True)):
        if wire.bandwidth is None or alpha is None:
            wires.append(None)
        else:
            name = topology.wire_name(w)
            wires.append(capacity(name, wire.kind, tau(alpha, wire.bandwidth), wire.lanes, name))
    groups = []
    for group in topology.groups:
        seconds = tau(min(topology.links[i].latency for i in group.links), group.bandwidth)
        groups.append(capacity(group.name, group.kind, seconds, group.lanes, group.name))
    return Chunking(topology, options, size, tau_ref, reference, tuple(links), tuple(wires), tuple(groups))


_ROUND = {"ceil": math.ceil, "floor": math.floor, "nearest": lambda x: math.floor(x + Fraction(1, 2))}


def _reference(
    topology: Topology, choice: str | Fraction, tau: Callable[[Fraction, Fraction], Fraction]
) -> tuple[Fraction, str]:
    """Return tau_ref and, in words, where it comes from."""
    if isinstance(choice, Fraction):
        if choice <= 0:
            raise HetesynthError(
                "the reference time must be positive", code="HS403", help="for example --tau-ref 20us"
            )
        return choice, "as stated"
    slowest: dict[str, Fraction] = {}
    different = {(x.kind, id(x.latency), id(x.bandwidth)): x for x in topology.links}
    for link in different.values():
        seconds = tau(link.latency, link.bandwidth)
        slowest[link.kind] = max(seconds, slowest.get(link.kind, seconds))
    if choice == "slowest":
        kind = max(slowest, key=lambda k: (slowest[k], k))
        return slowest[kind], f"slowest link type: {kind}"
    if choice in slowest:
        return slowest[choice], f"link type: {choice}"
    raise HetesynthError(
        f"no link of kind {choice!r} to take the reference time from",
        code="HS403",
        help=f"use slowest, a time such as 20us, or one of {', '.join(sorted(slowest))}",
    )
