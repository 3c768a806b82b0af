"""What a primitive costs (HeteCCL 4.2): alpha + bytes x beta + reduced bytes x gamma, per link and GPU.

It also says what a size means for each collective, and NCCL's two bandwidths. Floats from here on: seconds, bytes,
bytes per second. docs/model.md defines each term.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from hetesynth.model.calibration import CALIBRATIONS, CalibrationName, calibrated
from hetesynth.model.collective import COLLECTIVES, CollectiveName
from hetesynth.model.program import Protocol
from hetesynth.model.runtime_costs import (
    EFA,
    FLAGS_OF_LL,
    HOPS,
    LL_BETWEEN,
    PROTOCOLS,
    SCALE_UP,
    Hop,
    RuntimeCosts,
    fabric_of,
)
from hetesynth.model.topology import HOST_KINDS, NETWORK_KINDS, Link, Rank, SharedGroup, Topology, VertexKind
from hetesynth.model.words import told_apart

COPY_PER_REDUCE = 1.5
"""A reduction reads twice and writes once, a copy reads once and writes once: 3 memory accesses against 2."""


@dataclass(frozen=True, slots=True)
class Costs:
    """The prices of a topology, in seconds and bytes.

    ``resource_names``, ``resource_rate`` (R): every wire with a bandwidth and every stated group, all lanes
    together. ``link_resources[i]``: the resources that link i draws from. ``link_alpha[i]``: seconds before its
    bytes flow. ``link_rate[i]``: 1/beta, bytes per second on an idle link. ``gamma[rank]``: seconds per byte
    reduced there. ``copy[rank]``: seconds per byte copied within its memory.
    ``runtime``: what thread blocks and kernels cost on the GPUs, whose models are ``models``; None: nothing.
    ``stated_copy_rates[rank]``: what the topology says that a thread block of ``rank`` copies with Simple.
    ``hops[i]``: seconds that a message takes over link i at least, with each of ``PROTOCOLS``. ``ll128[i]``:
    whether LL128 is known to work over it. ``ll_limits``: what LL carries at most besides: name, bytes on the wire
    per second, links.
    """

    calibration: CalibrationName
    resource_names: tuple[str, ...]
    resource_rate: tuple[float, ...]
    link_ends: tuple[tuple[Rank, Rank], ...]
    link_resources: tuple[tuple[int, ...], ...]
    link_alpha: tuple[float, ...]
    link_rate: tuple[float, ...]
    gamma: tuple[float, ...]
    copy: tuple[float, ...]
    runtime: RuntimeCosts | None = None
    models: tuple[str, ...] = ()
    stated_copy_rates: tuple[float | None, ...] = ()
    hops: tuple[tuple[float, float, float], ...] = ()
    ll128: tuple[bool, ...] = ()
    ll_limits: tuple[tuple[str, float, tuple[int, ...]], ...] = ()

    def lags(self, protocol: Protocol) -> list[float]:
        """Return the seconds on each link from the last byte of a message until its receiver reads it: alpha, or
        what a hop takes with ``protocol`` if that is more."""
        if not self.hops:
            return [*self.link_alpha]
        place = PROTOCOLS.index(protocol)
        return [max(hop[place], alpha) for hop, alpha in zip(self.hops, self.link_alpha, strict=True)]

    def of(self, protocol: Protocol) -> Costs:
        """Return these costs with the limits that links share with ``protocol`` as resources; only LL has any."""
        if protocol != "LL" or not self.ll_limits:
            return self
        first, more = len(self.resource_rate), [*map(list, self.link_resources)]
        for number, (_, _, links) in enumerate(self.ll_limits):
            for i in links:
                more[i].append(first + number)
        rates = (*self.resource_rate, *(rate for _, rate, _ in self.ll_limits))
        return replace(
            self,
            resource_names=(*self.resource_names, *(name for name, _, _ in self.ll_limits)),
            resource_rate=rates,
            link_resources=tuple(map(tuple, more)),
            link_rate=tuple(min(rates[r] for r in used) for used in more),
            ll_limits=(),
        )

    def start(self, protocol: Protocol) -> float:
        """Return the seconds before the first instruction of a program, on the GPU that takes longest."""
        return 0.0 if self.runtime is None else self.runtime.start(self.models, protocol)

    @property
    def launch(self) -> float:
        """The seconds that every program takes to start at least, whatever its protocol."""
        return 0.0 if self.runtime is None else self.runtime.launch(self.models)

    def copy_rate(self, rank: Rank, protocol: Protocol) -> float | None:
        """Return the bytes per second that one thread block of ``rank`` moves; None: it keeps up with any link."""
        if self.runtime is None:
            return None
        tabled = self.runtime.of(self.models[rank]).copy_rate
        stated = self.stated_copy_rates[rank] if self.stated_copy_rates else None
        return tabled.of(protocol) if stated is None else tabled.scaled_to(stated).of(protocol)


@lru_cache(maxsize=16)
def costs(topology: Topology, calibration: CalibrationName = "spec", runtime: RuntimeCosts | None = None) -> Costs:
    """Return the costs of ``topology``; a calibration without overheads counts no ``runtime`` costs either."""
    choice, topology = CALIBRATIONS[calibration], calibrated(topology, calibration)
    limiting = [(i, wire, wire.bandwidth) for i, wire in enumerate(topology.wires) if wire.bandwidth is not None]
    of_wire = {i: number for number, (i, _, _) in enumerate(limiting)}
    names = [topology.wire_name(i) for i, _, _ in limiting]
    rates = [float(bandwidth * wire.lanes) for _, wire, bandwidth in limiting]
    seconds_of = {id(link.latency): link.latency for link in topology.links}  # few: fractions are slow to convert
    alpha_of = {key: float(latency) if choice.overheads else 0.0 for key, latency in seconds_of.items()}
    of_group: dict[int, list[int]] = {}
    for group in topology.groups:
        for i in group.links:
            of_group.setdefault(i, []).append(len(names))
        names.append(group.name)
        rates.append(float(group.bandwidth * group.lanes))
    resources = tuple(
        tuple(dict.fromkeys([of_wire[w] for w in link.wires if w in of_wire] + of_group.get(i, [])))
        for i, link in enumerate(topology.links)
    )
    runtime = costed(runtime, calibration)
    reduce_rate = topology.reduce_bandwidth or (None,) * topology.ranks
    gamma = tuple(float(1 / b) if b is not None and choice.overheads else 0.0 for b in reduce_rate)
    return Costs(
        calibration=calibration,
        resource_names=told_apart(names),
        resource_rate=tuple(rates),
        link_ends=tuple((link.src, link.dst) for link in topology.links),
        link_resources=resources,
        link_alpha=tuple(alpha_of[id(link.latency)] for link in topology.links),
        link_rate=tuple(min(rates[r] for r in used) for used in resources),
        gamma=gamma,
        copy=tuple(g / COPY_PER_REDUCE for g in gamma),
        runtime=runtime,
        models=topology.models,
        stated_copy_rates=tuple(None if b is None else float(b) for b in topology.copy_bandwidth),
        **({} if runtime is None or not runtime.hops else _by_protocol(topology, runtime)),
    )


def delayed(topology: Topology, prices: Costs, protocol: Protocol) -> Topology:
    """Return ``topology`` with the latency of each link raised to its lag with ``protocol``, to the nanosecond,
    and the limits that links share with ``protocol`` as groups. ``prices``: the costs of ``topology``."""
    links = [
        link if lag <= alpha else replace(link, latency=Fraction(round(lag * 1e9), 10**9))
        for link, lag, alpha in zip(topology.links, prices.lags(protocol), prices.link_alpha, strict=True)
    ]
    limits = prices.ll_limits if protocol == "LL" else ()
    groups = [SharedGroup(name, "", Fraction(round(rate)), links) for name, rate, links in limits]
    return replace(topology, links=tuple(links), groups=(*topology.groups, *groups))


def _by_protocol(topology: Topology, runtime: RuntimeCosts) -> dict[str, Any]:
    """Return the fields of ``Costs`` on links that depend on the protocol: ``hops``, ``ll128``, ``ll_limits``."""
    servers, gpus = topology.servers, [runtime.of(model) for model in topology.models]
    alone = len({*servers}) == topology.ranks
    kinds = [vertex.kind for vertex in topology.vertices]
    hops, ll128, limited = [], [], defaultdict[tuple[str, float], list[int]](list)
    for i, link in enumerate(topology.links):
        passed = {kinds[topology.wires[w].src] for w in link.wires[1:]}
        hop, ends = _hop(link, passed, servers, alone=alone), (gpus[link.src], gpus[link.dst])
        seconds = HOPS[hop]
        if hop in ("net", "alone"):  # NCCL counts what NICs add twice for Simple
            fabric = fabric_of({topology.wires[w].kind.lower() for w in link.wires})
            more = min(gpu.efa for gpu in ends) if fabric is EFA else fabric.hop
            seconds = (seconds[0] + more, seconds[1] + more, seconds[2] + 2 * more)
            between = LL_BETWEEN[min(len({*servers}), 3) - 2]
            limited[f"LL out of {servers[link.src]}", 1e9 * between * FLAGS_OF_LL].append(i)
        else:
            limited[f"LL out of gpu {link.src}", ends[0].ll * FLAGS_OF_LL].append(i)
        hops.append((seconds[0] * 1e-6, seconds[1] * 1e-6, seconds[2] * 1e-6))
        near = hop == "nvlink" if hop in ("nvlink", "host") else not passed & {"cpu", "numa"}
        ll128.append(near and all(gpu.ll128 for gpu in ends))
    limits = tuple((name, rate, tuple(links)) for (name, rate), links in limited.items())
    return {"hops": tuple(hops), "ll128": tuple(ll128), "ll_limits": limits}


def _hop(link: Link, passed: set[VertexKind], servers: Sequence[str], *, alone: bool) -> Hop:
    """Return the kind of NCCL hop that ``link`` is, given the kinds of vertices that it ``passed``; links of
    unknown kind in a server are taken for NVLink. ``alone``: every server has one GPU."""
    scale_up = link.kind.lower().startswith(SCALE_UP)
    if passed & {"nic", *NETWORK_KINDS} or (not scale_up and servers[link.src] != servers[link.dst]):
        return "alone" if alone else "net"
    return "host" if not scale_up and passed & HOST_KINDS else "nvlink"


def costed(runtime: RuntimeCosts | None, calibration: CalibrationName) -> RuntimeCosts | None:
    """Return ``runtime`` if ``calibration`` counts overheads, else None."""
    return runtime if CALIBRATIONS[calibration].overheads else None


# -- sizes and bandwidths


def chunk_bytes(name: CollectiveName, ranks: int, chunks_per_rank: int, size: float | Fraction) -> float:
    """Return the bytes of one chunk when the collective's buffer has ``size`` bytes.

    ``size`` is that of the largest buffer of a rank, as nccl-tests prints it: the output of an allgather, the
    input of a reduce-scatter, the root's buffer of a gather or scatter. Broadcast and reduce cut it into
    ``chunks_per_rank`` chunks, all others into ranks x ``chunks_per_rank``.
    """
    pieces = chunks_per_rank if COLLECTIVES[name].chain else chunks_per_rank * ranks
    return float(Fraction(size) / pieces)


def runtime_bytes(name: CollectiveName, ranks: int, size: int) -> int:
    """Return the bytes that a runtime compares with a file's minBytes and maxBytes for a buffer of ``size`` bytes.

    That is ``size``, but for gather and scatter one rank's block: runtimes multiply the count of a call by the
    number of ranks for allgather, reduce-scatter and alltoall only.
    """
    return size if COLLECTIVES[name].in_place else size // ranks


def bus_factor(name: CollectiveName, ranks: int) -> Fraction:
    """Return bus bandwidth over algorithm bandwidth, by the convention of nccl-tests (its doc/PERFORMANCE.md)."""
    if COLLECTIVES[name].chain:
        return Fraction(1)
    return Fraction((2 if COLLECTIVES[name].composed else 1) * (ranks - 1), ranks)


@dataclass(frozen=True, slots=True)
class Bandwidths:
    """The bandwidths of a collective in bytes per second. ``algorithm``: size / time. ``bus``: ``algorithm`` x
    ``bus_factor``, to be held against links."""

    algorithm: float
    bus: float


def bandwidths(name: CollectiveName, ranks: int, size: float, seconds: float) -> Bandwidths:
    """Return algorithm and bus bandwidth of a collective that took ``seconds``; zero where it took no time."""
    algorithm = size / seconds if seconds > 0 else 0.0
    return Bandwidths(algorithm, algorithm * float(bus_factor(name, ranks)))
