"""What no server with GPUs of the stated model has, and NICs faster than what is behind them (HS252 to HS254).

In: the cluster as built. Out: findings with both figures. What is too little is not told of servers in which
something is out of order or was slowed by `degrade`; what is too much is.
"""

from __future__ import annotations

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from hetesynth.model.diagnostics import Diagnostic, Span
from hetesynth.model.topology import HOST_KINDS, NETWORK_KINDS, Topology, Wire
from hetesynth.topology.importers.gpu_models import amd_model, gpu_model, short_name
from hetesynth.topology.importers.rates import nvlink_rate, pcie_rate, xgmi_rate
from hetesynth.topology.language.inspection import Inspection
from hetesynth.topology.language.names import Part
from hetesynth.topology.lint.roles import BITS, GB
from hetesynth.topology.lint.symmetry import broken, gb, in_file, listed

_SLACK = Fraction(5, 4)  # figures of two calibrations beside each other: 50 GB/s behind 48, 126 in a slot of 121
_LINE_RATES = (1, 10, 25, 40, 50, 56, 100, 200, 400, 800, 1600)  # of NICs, Gbps
_ETHERNET = (10, 25)  # Gbps that servers of any kind have, one or two of them
_DEEP = 16  # bridges between a NIC and a GPU: more is no PCIe tree
NVLINK_KINDS = ("nvlink", "nvswitch", "xgmi")
_FAR_KINDS = ("net", "wan", "lan", "router", "uplink", "upi", "cpu", "numa")

_Finding = tuple[str, ...]  # code, where, message behind the name, help


# --- what a GPU of a model is able to do, by data sheets, per direction and in B/s


@dataclass(frozen=True, slots=True)
class Limits:
    """``spec``, ``least``, ``most``: of one link, in the data sheet, as libraries count it and as signalled.

    ``slot``: sixteen lanes of its PCIe; ``together``: GPUs that one server or NVLink domain has at most;
    ``nic``: what a NIC beside it mostly has, Gbps; 0 where anything is usual; ``always``: none is without links.
    """

    name: str
    word: str  # NVLink or xGMI
    links: int
    spec: Fraction
    least: Fraction
    most: Fraction
    slot: Fraction
    together: int
    nic: int = 0
    always: bool = False


_GFX906_LINK = Fraction(50) * GB  # the most that AMD stated of MI50 and MI60; 33, which imports take, is measured
_NIC = {100: 400, 90: 400, 80: 200, 70: 100}  # Gbps, by compute capability: in servers with NVLink
_WHOLE = {100: 8, 90: 8, 80: 16, 70: 16}
OTHERS = ("V100", "A800", "A100", "H100", "B200")  # by what NVLink of a GPU has


@functools.cache
def limits_of(model: str) -> Limits | None:
    """The limits of ``model`` as people or drivers write it; None where it is not known."""
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
    return Limits(
        short_name(model),
        "NVLink",
        gpu.links,
        spec,
        least,
        max(spec, raw),
        pcie_rate(gpu.pcie, 16, "raw"),
        together,
        _NIC.get(gpu.sm // 10 * 10, 0) if gpu.switched else 0,
        gpu.switched and gpu.sm // 10 == 10,
    )


def model_with(rate: Fraction) -> str:
    """The model whose NVLink of a GPU has ``rate``, in the data sheet, as counted or as signalled; "" for none."""
    for name in OTHERS:
        limits = limits_of(name)
        links = (limits.spec, limits.least, limits.most) if limits is not None else ()
        if limits is not None and any(abs(rate - link * limits.links) * 200 <= rate for link in links):
            return name
    return ""


# --- findings


def beyond_models(inspection: Inspection) -> Iterator[Diagnostic]:
    """Yield figures that GPUs of the stated model, or the NICs beside them, do not have."""
    damaged = broken(inspection)
    parts_of: dict[_Finding, list[str]] = defaultdict(list)
    servers = _servers(inspection.topology)
    for server, gpus in servers.items():
        for name, limits, reach in gpus:
            for message, help_ in (*_wide_slot(limits, reach.pcie), *_too_much(limits, reach)):
                parts_of["HS252", server, message, help_].append(name)
        limits, names = gpus[0][1], [name for name, _, _ in gpus]
        if any(other is not limits for _, other, _ in gpus):
            continue
        if len(gpus) > limits.together:
            most = f"where {limits.name} is in servers of at most {limits.together}"
            message = f"{len(gpus)} GPUs in a server, {most}"
            help_ = "say how many GPUs one server has; `instance a[0-1] = ...` makes several"
            parts_of["HS254", server, message, help_] = names
        if server not in damaged and limits.links:
            for message, help_ in _too_little(limits, [reach for _, _, reach in gpus]):
                parts_of["HS252", server, message, help_] = names
    # buses wider than PCIe, and NICs with an eighth of what is beside such GPUs, where their twins are alike
    types = dict(inspection.servers)
    of_server = {server: gpus[0][1] for server, gpus in servers.items()}
    twins: dict[tuple[str, str], list[tuple[Part, Fraction]]] = defaultdict(list)
    count: Counter[str] = Counter()
    for part in (part for part in inspection.parts if part.bandwidth is not None):
        rate = (part.bandwidth or Fraction(0)) * part.lanes
        if part.kind == "bus" and part.server in of_server and "pcie" in (part.link_kind + part.name).lower():
            for said in _wide_slot(of_server[part.server], rate):
                parts_of[("HS252", part.server, *said)].append(part.name)
        elif part.kind == "nic" and not part.disabled:
            key = types.get(part.server, part.server), part.name.removeprefix(part.server)
            twins[key].append((part, rate))
            count[part.server] += 1
    for nics in twins.values():
        for part, rate in nics if len({rate for _, rate in nics}) == 1 else ():
            of, gbps = of_server.get(part.server), rate * BITS / GB
            if of is None:
                continue
            if gbps * BITS == of.nic:
                few = count[part.server] <= max(2, (len(servers[part.server]) - 1) // 2)
                if gbps in _ETHERNET and few:
                    continue
                message = f"{float(gbps):g} Gbps, where a NIC beside {of.name} mostly has {float(of.nic):g}"
            elif gbps not in _LINE_RATES and gbps * BITS in (100, 200, 400, 800) and of.nic:
                message = f"{float(gbps):g} Gbps ({gb(rate)}), which no NIC has"
            else:
                continue
            meant = f"{float(gbps):g} GB/s, {float(gbps * BITS):g} Gbps"
            help_ = f"did you mean {meant}? (b is a bit, B a byte)"
            parts_of["HS252", part.server, message, help_].append(part.name)
    yield from told(inspection, parts_of)


def _servers(topology: Topology) -> dict[str, list[tuple[str, Limits, _Reach]]]:
    """The GPUs of models that are known, by server."""
    leaving: dict[int, list[Wire]] = defaultdict(list)
    for wire in topology.wires:
        leaving[wire.src].append(wire)
    saved: dict[int, Fraction] = defaultdict(Fraction)  # by what stated groups limit a GPU more than its wires do
    for group in topology.groups:
        links = [topology.links[number] for number in group.links]
        if len({link.src for link in links}) == 1 and all(len(link.wires) == 1 for link in links):
            over = sum((k.bandwidth * k.lanes for k in links), Fraction(0)) - group.bandwidth * group.lanes
            saved[links[0].src] = max(saved[links[0].src], over)
    servers: dict[str, list[tuple[str, Limits, _Reach]]] = defaultdict(list)
    for rank, vertex in enumerate(topology.vertices[: topology.ranks]):
        limits = limits_of(vertex.model)
        if limits is None:
            continue
        reach = _Reach(-saved[rank])
        for wire in leaving[rank]:
            far = topology.vertices[wire.dst]
            if wire.bandwidth is None or far.kind in NETWORK_KINDS:
                continue
            rate, kind = wire.bandwidth * wire.lanes, wire.kind.lower()
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
        servers[vertex.server].append((vertex.name, limits, reach))
    return servers


@dataclass(slots=True)
class _Reach:
    """What leaves a GPU towards others: over NVLink as stated, over wires of no such kind, of both to switches;
    the fastest connection with another GPU, and the fastest over PCIe.
    """

    stated: Fraction
    other: Fraction = Fraction(0)
    switched: Fraction = Fraction(0)
    pair: Fraction = Fraction(0)
    pcie: Fraction = Fraction(0)


def _wide_slot(limits: Limits, rate: Fraction) -> Iterator[tuple[str, str]]:
    if rate > limits.slot * _SLACK:
        there = f"where sixteen lanes of {limits.name} carry {gb(limits.slot)}"
        help_ = "is it PCIe of a later generation? to a CPU: `kind nvlink` or `c2c`?"
        yield f"{gb(rate)} of PCIe in one direction, {there}", _both(rate, limits.slot) or help_


def _too_much(limits: Limits, reach: _Reach) -> Iterator[tuple[str, str]]:
    name, word, slot = limits.name, limits.word, limits.slot
    total, spec = reach.stated + reach.other, limits.links * limits.spec
    if reach.stated > 0 and not limits.links:
        yield f"{word} ({gb(reach.stated)}), and {name} has none", "state `kind pcie`, or another model"
    elif total > (limits.links * limits.most + (slot if reach.other else 0)) * Fraction(102, 100):
        shown = f"{limits.links} links of {gb(limits.spec)}, {gb(spec)}" if limits.links else gb(slot)
        like = _like(total, name) if reach.switched == total else ""
        help_ = f"at most {gb(spec or slot)} are possible: one direction, bytes and not bits?"
        message = f"{gb(total)} to other GPUs in one direction, where {name} has {shown}"
        yield message, _both(total, spec) or like or help_


def _too_little(limits: Limits, reached: list[_Reach]) -> Iterator[tuple[str, str]]:
    """What is wrong where all GPUs of a server have as little."""
    name, counted = limits.name, limits.links * limits.least
    total, spec = max(reach.stated + reach.other for reach in reached), limits.links * limits.spec
    if total == 0 and limits.always and len(reached) > 1:
        has = f"{limits.links} links of {gb(limits.spec)}, {gb(spec)}"
        message = f"no {limits.word} to other GPUs, where {name} has {has}"
        yield message, "join them by a switch, in a server or for a rack: `switch s { ports *.gpu*; ... }`"
    if 0 < total < counted and all(reach.switched == reach.stated + reach.other == total for reach in reached):
        like = _like(total, name)
        if like or 2 * total < counted:
            has = f"{limits.links} of {gb(limits.spec)}, {gb(spec)}"
            yield f"{gb(total)} to its switch, where {name} has {has}", like or _slower(total, spec)
    pair = max(reach.pair for reach in reached)
    if 0 < 2 * pair < limits.least:
        message = f"at most {gb(pair)} to another GPU, where one {limits.word} of {name} carries {gb(limits.spec)}"
        yield message, _slower(pair, limits.spec)


def _both(rate: Fraction, spec: Fraction) -> str:
    """The help where ``rate`` is about twice what there is."""
    if Fraction(19, 10) * spec <= rate <= Fraction(22, 10) * spec:
        return f"{gb(rate)} is both directions together: state one, {gb(spec)}"
    return ""


def _like(rate: Fraction, name: str) -> str:
    model = model_with(rate)
    return f"{gb(rate)} is what {model} has: is the model right?" if model and model not in name else ""


def _slower(rate: Fraction, spec: Fraction) -> str:
    if rate * BITS * 2 >= spec >= rate * BITS / 2:
        return f"did you mean {gb(rate * BITS)}? (b is a bit, B a byte)"
    return f"where it is slow on purpose, state {gb(spec)} and `degrade` it"


def behind_nics(inspection: Inspection) -> Iterator[Diagnostic]:
    """NICs with more than what leads from them to GPUs carries; those with less behind them than their twins."""
    topology = inspection.topology
    damaged = broken(inspection)
    numbers = {vertex.name: i for i, vertex in enumerate(topology.vertices)}
    leaving: dict[int, list[Wire]] = defaultdict(list)
    for wire in topology.wires:
        leaving[wire.src].append(wire)
    models = {vertex.model for vertex in topology.vertices[: topology.ranks]}
    slots = {model: limits.slot for model in models if (limits := limits_of(model))}
    parts_of: dict[_Finding, list[str]] = defaultdict(list)
    beside: dict[int, list[Fraction]] = defaultdict(list)  # a GPU: what it has of each NIC attached to it
    inward: dict[str, list[tuple[Part, Fraction]]] = defaultdict(list)
    for part in inspection.parts:
        if part.name not in numbers or part.kind != "nic" or part.bandwidth is None or part.server in damaged:
            continue
        received = part.receive[0] * part.receive[1] if part.receive else Fraction(0)
        rate = max(part.bandwidth * part.lanes, received)
        carried = _carried(topology, leaving, slots, numbers[part.name])
        if not carried:
            continue
        users = [wire.dst for wire in leaving[numbers[part.name]] if wire.dst < topology.ranks]
        for gpu in users:
            beside[gpu].append(min(rate, carried) / len(users))
        if carried * _SLACK >= rate:
            inward[part.server].append((part, carried))
        else:
            message, bits = f"{gb(rate)}, and what joins it to GPUs carries {gb(carried)}", ""
            if rate / GB in _LINE_RATES[6:] and rate / BITS <= carried * _SLACK:
                bits = f"{float(rate / GB):g} Gbps ({gb(rate / BITS)}), or "
            help_ = f"did you mean {bits}a slot of more lanes (x8, x16) or a later generation?"
            parts_of["HS253", part.server, message, help_].append(part.name)
    for gpu, rates in beside.items():
        vertex = topology.vertices[gpu]
        slot = slots.get(vertex.model)
        if slot is not None and len(rates) > 1 and sum(rates) > slot * _SLACK:
            total = sum(rates, Fraction(0))
            message = f"{len(rates)} NICs of {gb(total)} together, and its slot carries {gb(slot)}"
            help_ = "are their number and rate right? the slot is `pcie p { ports gpu0, nic[0-1]; ... }`"
            parts_of["HS253", vertex.server, message, help_].append(vertex.name)
    for server, nics in inward.items():
        usual, alike = Counter(rate for _, rate in nics).most_common(1)[0]
        less = [(part, rate) for part, rate in nics if rate * 2 <= usual]
        if less and alike == len(nics) - len(less) and len(less) <= max(1, len(nics) // 4) and alike > 1:
            for part, rate in less:
                message = f"joined to GPUs with {gb(rate)}, where {alike} others of its server have {gb(usual)}"
                parts_of["HS253", server, message, "check the lanes of its slot, x8 or x16"].append(part.name)
    yield from told(inspection, parts_of)


def _carried(
    topology: Topology, leaving: dict[int, list[Wire]], slots: dict[str, Fraction], nic: int
) -> Fraction | None:
    """What the GPUs behind vertex ``nic`` together get from it; None where nothing limits it."""
    seen = {nic}

    def through(at: int, depth: int = 0) -> Fraction | None:
        if depth > _DEEP:
            return None
        total = Fraction(0)
        for wire in leaving[at]:
            far = topology.vertices[wire.dst]
            outside = far.kind in NETWORK_KINDS or far.server != topology.vertices[nic].server
            if wire.dst in seen or outside or far.kind == "nic":
                continue
            seen.add(wire.dst)
            stated = wire.bandwidth if wire.kind != "upi" else None  # between sockets it is nobody's slot
            rates = [stated * wire.lanes] if stated is not None else []
            behind = slots.get(far.model) if far.kind == "gpu" else through(wire.dst, depth + 1)
            rates += [behind] if behind is not None else []
            if not rates:
                return None
            total += min(rates)
        return total

    return through(nic)


def told(inspection: Inspection, parts_of: Mapping[tuple[str, ...], list[str]]) -> Iterator[Diagnostic]:
    """A warning for all servers, or parts of one, of which the same is said; a note where the key ends so."""
    spans = {part.name: part.span for part in inspection.parts}
    alike: dict[tuple[str, Span, str, str, bool], list[str]] = defaultdict(list)
    for (code, server, message, help_, *note), names in parts_of.items():
        alike[code, in_file(inspection, spans[names[0]], server), message, help_, bool(note)] += names
    for (code, span, message, help_, is_note), names in alike.items():
        yield Diagnostic(code, span, f"{listed(names)}: {message}", help_, "note" if is_note else "warning")
