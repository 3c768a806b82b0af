"""What no server with GPUs of the stated model has, and NICs faster than what is behind them (HS252 to HS254).

What is too little is not told of servers in which something is out of order or was slowed by `degrade`.
"""

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from hetesynth.model.topology import HOST_KINDS, NETWORK_KINDS, Topology, Vertex, Wire
from hetesynth.topology.importers.gpu_models import (
    amd_model,
    gpu_model,
    nvlink_rate,
    pcie_rate,
    short_name,
    xgmi_rate,
)
from hetesynth.topology.lint.rates import BITS, GB
from hetesynth.topology.lint.view import Finding, View, gb, rate_of

_SLACK = Fraction(5, 4)  # figures of two calibrations beside each other: 50 GB/s behind 48, 126 in a slot of 121
_DEEP = 16  # bridges between a NIC and a GPU: more is no PCIe tree
WAY_OUT = "one direction, in bytes and not bits? is the model right"
NVLINK_KINDS = ("nvlink", "nvswitch", "xgmi")
_FAR_KINDS = ("net", "wan", "lan", "router", "uplink", "upi", "cpu", "numa")
_GFX906_LINK = Fraction(50) * GB  # the most that AMD stated of MI50 and MI60; 33, which imports take, is measured
_NIC = {100: 400, 90: 400, 80: 200, 70: 100}  # Gbps, by compute capability: in servers with NVLink
_WHOLE = {100: 8, 90: 8, 80: 16, 70: 16}


@dataclass(frozen=True, slots=True)
class Limits:
    """The most a GPU model does, in B/s one way; a link's rate by data sheet, as counted and as signaled."""

    name: str
    word: str  # NVLink or xGMI
    links: int
    spec: Fraction
    least: Fraction
    most: Fraction
    slot: Fraction  # sixteen lanes of its PCIe
    together: int  # GPUs that one server or NVLink domain has at most
    nic: int = 0  # what a NIC beside it mostly has, Gbps; 0 where anything is usual
    always: bool = False  # none is without links


@functools.cache
def limits_of(model: str) -> Limits | None:
    """Return the limits of ``model`` as people or drivers write it; None if it is unknown or custom."""
    if re.search(r"\bcustom\b", model, re.IGNORECASE):
        return None
    if amd := amd_model(model):
        spec, least = (xgmi_rate(amd.arch, way) for way in ("spec", "nccl"))
        most = _GFX906_LINK if amd.arch == "gfx906" else spec
        return Limits(amd.name, "xGMI", amd.links, spec, least, most, pcie_rate(amd.pcie, 16, "raw"), amd.most)
    gpu = gpu_model(model)
    if gpu is None:
        return None
    spec, least, raw = (nvlink_rate(gpu.sm, way) for way in ("spec", "nccl", "raw"))
    together = _WHOLE.get(gpu.sm // 10 * 10, 16) if gpu.switched else 32
    if grace := re.search(r"G[BH]\d00", model, re.IGNORECASE):
        together = 72 if grace[0][1] in "Bb" else 256
    rates = (spec, least, max(spec, raw), pcie_rate(gpu.pcie, 16, "raw"))
    nic, always = (_NIC.get(gpu.sm // 10 * 10, 0), gpu.sm // 10 == 10) if gpu.switched else (0, False)
    return Limits(short_name(model), "NVLink", gpu.links, *rates, together, nic, always)


def overstated(topology: Topology) -> Iterator[tuple[Vertex, str]]:
    """Yield each GPU that has more than its model is able to do, and a message about it."""
    for vertex, reach in zip(topology.vertices, _reaches(topology), strict=False):
        own = limits_of(vertex.model)
        yield from ((vertex, message) for message in (_too_much(own, reach) if own is not None else ()))


def beyond_models(view: View) -> Iterator[Finding]:
    """Yield GPUs with more than their model, servers with too many GPUs, and servers with too little on all."""
    for vertex, message in overstated(view.topology):
        yield Finding("HS252", vertex.name, message, f"{WAY_OUT}, or as `custom`?")
    reaches = _reaches(view.topology)
    for server, ranks in view.servers.items():
        limits = [limits_of(view.vertices[rank].model) for rank in ranks]
        reached = [reaches[rank] for rank in ranks]
        names = [view.vertices[rank].name for rank in ranks]
        of = limits[0]
        if of is None or any(other is not of for other in limits):
            continue
        if len(ranks) > of.together:
            message = f"{len(ranks)} GPUs in a server, where {of.name} is in servers of at most {of.together}"
            help_ = "say how many GPUs one server has; `instance a[0-1] = ...` makes several"
            yield from (Finding("HS254", name, message, help_) for name in names)
        for message in _too_little(of, reached) if server not in view.damaged and of.links else ():
            help_ = f"b is a bit, B a byte; slow on purpose: state {gb(of.links * of.spec)} and `degrade` it"
            yield from (Finding("HS252", name, message, help_) for name in names)


@dataclass(slots=True)
class _Reach:
    """The B/s that leave a GPU toward other GPUs."""

    stated: Fraction  # over NVLink
    other: Fraction = Fraction(0)  # over wires of no such kind
    switched: Fraction = Fraction(0)  # of both to switches
    pair: Fraction = Fraction(0)  # the fastest connection with another GPU
    pcie: Fraction = Fraction(0)  # the fastest


def _reaches(topology: Topology) -> list[_Reach]:
    """Return the B/s that leave each GPU toward other GPUs, by rank."""
    saved: dict[int, Fraction] = defaultdict(Fraction)  # by what stated groups limit a GPU more than its wires do
    for group in topology.groups:
        links = [topology.links[number] for number in group.links]
        if len({link.src for link in links}) == 1 and all(len(link.wires) == 1 for link in links):
            over = sum((k.bandwidth * k.lanes for k in links), Fraction(0)) - group.bandwidth * group.lanes
            saved[links[0].src] = max(saved[links[0].src], over)
    leaving: dict[int, list[Wire]] = defaultdict(list)
    for wire in topology.wires:
        leaving[wire.src].append(wire)
    return [_reach(topology, rank, leaving[rank], -saved[rank]) for rank in range(topology.ranks)]


def _reach(topology: Topology, rank: int, wires: Sequence[Wire], stated: Fraction) -> _Reach:
    reach, vertex = _Reach(stated), topology.vertices[rank]
    for wire in wires:
        far, rate, kind = topology.vertices[wire.dst], rate_of(wire), wire.kind.lower()
        if not rate or far.kind in NETWORK_KINDS:
            continue
        slot = "pcie" in kind or far.name.rpartition(".")[2].lower().startswith(("pcie", "plx"))
        if kind in NVLINK_KINDS:  # of POWER to CPUs as well
            reach.stated += rate
        elif far.kind == "nic" or far.kind in HOST_KINDS or slot:
            reach.pcie = max(reach.pcie, rate) if "c2c" not in kind else reach.pcie
            continue
        elif kind not in _FAR_KINDS and far.server in (vertex.server, ""):
            reach.other += rate
        else:
            continue
        reach.switched += rate if far.kind == "switch" else 0
        reach.pair = max(reach.pair, rate) if far.kind == "gpu" else reach.pair
    return reach


def _too_much(limits: Limits, reach: _Reach) -> Iterator[str]:
    total, spec = reach.stated + reach.other, limits.links * limits.spec
    if reach.pcie > limits.slot * _SLACK:
        yield f"{gb(reach.pcie)} of PCIe, where sixteen lanes of {limits.name} carry {gb(limits.slot)}"
    if reach.stated > 0 and not limits.links:
        yield f"{limits.word} ({gb(reach.stated)}), and {limits.name} has none"
    elif total > (limits.links * limits.most + (limits.slot if reach.other else 0)) * Fraction(102, 100):
        both = " (both directions together?)" if spec and 19 * spec <= 10 * total <= 22 * spec else ""
        shown = f"{limits.links} links of {gb(limits.spec)}, {gb(spec)}" if limits.links else gb(limits.slot)
        yield f"{gb(total)} to other GPUs in one direction{both}, where {limits.name} has {shown}"


def _too_little(limits: Limits, reached: list[_Reach]) -> Iterator[str]:
    """Yield a message for each way in which all GPUs of a server have less than their model."""
    total, spec = max(reach.stated + reach.other for reach in reached), limits.links * limits.spec
    has = f"where {limits.name} has {limits.links} links of {gb(limits.spec)}, {gb(spec)}"
    if total == 0 and limits.always and len(reached) > 1:
        yield f"no {limits.word} to other GPUs, {has}"
    switched = all(reach.switched == reach.stated + reach.other == total for reach in reached)
    if 0 < total * 10 < limits.links * limits.least * 9 and switched:
        yield f"{gb(total)} to its switch, {has}"
    pair = max(reach.pair for reach in reached)
    if 0 < 2 * pair < limits.least:
        yield f"at most {gb(pair)} to another GPU, {has}"


def odd_nics(view: View) -> Iterator[Finding]:
    """Yield NICs with an eighth of the usual rate beside such GPUs, if their twins in like servers are equal."""
    types = dict(view.inspection.servers)
    rates: dict[tuple[str, str], set[Fraction]] = defaultdict(set)
    nics: list[tuple[str, Fraction, Limits, set[Fraction]]] = []
    for part in view.parts.values():
        limits = limits_of(view.vertices[view.servers[part.server][0]].model) if part.kind == "nic" else None
        if limits is not None and part.bandwidth is not None and not part.disabled:
            twins = rates[types.get(part.server, part.server), part.name.removeprefix(part.server)]
            twins.add(part.bandwidth * part.lanes)
            nics.append((part.name, part.bandwidth * part.lanes, limits, twins))
    for name, rate, limits, twins in nics:
        gbps = rate * BITS / GB
        if gbps * BITS == limits.nic and len(twins) == 1:
            message = f"{float(gbps):g} Gbps, where a NIC beside {limits.name} mostly has {limits.nic}"
            help_ = f"did you mean {float(gbps):g} GB/s, {float(gbps * BITS):g} Gbps? (b is a bit, B a byte)"
            yield Finding("HS252", name, message, help_)


def behind_nics(view: View) -> Iterator[Finding]:
    """Yield NICs faster than their way to GPUs, and NICs with a slower way to GPUs than their twins."""
    numbers = {vertex.name: i for i, vertex in enumerate(view.vertices)}
    inward: dict[str, list[tuple[str, Fraction]]] = defaultdict(list)
    for part in view.parts.values():
        if part.name not in numbers or part.kind != "nic" or part.bandwidth is None or part.server in view.damaged:
            continue
        received = part.receive[0] * part.receive[1] if part.receive else Fraction(0)
        rate = max(part.bandwidth * part.lanes, received)
        carried = _carried(view, numbers[part.name], {numbers[part.name]})
        if carried and carried * _SLACK >= rate:
            inward[part.server].append((part.name, carried))
        elif carried:
            message = f"{gb(rate)}, and what joins it to GPUs carries {gb(carried)}"
            help_ = "is its rate in bits? did you mean a slot of more lanes (x8, x16) or a later generation?"
            yield Finding("HS253", part.name, message, help_)
    for nics in inward.values():
        usual, alike = Counter(rate for _, rate in nics).most_common(1)[0]
        less = [(name, rate) for name, rate in nics if rate * 2 <= usual]
        if alike == len(nics) - len(less) and len(less) <= max(1, len(nics) // 4) and alike > 1:
            for name, rate in less:
                message = f"joined to GPUs with {gb(rate)}, where {alike} others of its server have {gb(usual)}"
                yield Finding("HS253", name, message, "check the lanes of its slot, x8 or x16")


def _carried(view: View, at: int, seen: set[int], depth: int = 0) -> Fraction | None:
    """Return the B/s that all GPUs behind vertex ``at`` get from it; None if nothing limits them."""
    total = Fraction(0)
    if depth > _DEEP:
        return None
    for wire in view.leaving[at]:
        far = view.vertices[wire.dst]
        outside = far.kind in NETWORK_KINDS or far.server != view.vertices[at].server
        if wire.dst in seen or outside or far.kind == "nic":
            continue
        seen.add(wire.dst)
        limits = limits_of(far.model) if far.kind == "gpu" else None
        behind = limits.slot if limits else None
        if far.kind != "gpu":
            behind = _carried(view, wire.dst, seen, depth + 1)
        stated = rate_of(wire) if wire.bandwidth is not None and wire.kind != "upi" else None  # nobody's slot
        rates = [rate for rate in (stated, behind) if rate is not None]
        if not rates:
            return None
        total += min(rates)
    return total
