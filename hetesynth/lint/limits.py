"""What no server with GPUs of the stated model has, and NICs faster than what is behind them (HS252 to HS254).

In: the cluster as built. Out: findings with both figures. What lacks (`disable`, `without`, `down`) or was slowed by
`degrade` is never told; what is too fast is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from fractions import Fraction

from hetesynth.diagnostics import Diagnostic, Span
from hetesynth.frontend.inspection import Inspection
from hetesynth.frontend.names import Part
from hetesynth.lint.models import Limits, limits_of, model_with
from hetesynth.lint.roles import GB
from hetesynth.lint.symmetry import broken, gb, in_file, listed
from hetesynth.model.topology import HOST_KINDS, NETWORK_KINDS, Topology, Wire

_SLACK = Fraction(11, 10)  # figures of two calibrations beside each other: 50 GB/s behind 48
_LINE_RATES = (1, 10, 25, 40, 50, 56, 100, 200, 400, 800, 1600)  # of NICs, Gbps
_BITS = 8
_DEEP = 16  # bridges between a NIC and a GPU: more is no PCIe tree
_NVLINK_KINDS = ("nvlink", "nvswitch", "xgmi")
_FAR_KINDS = ("net", "wan", "lan", "router", "uplink", "upi", "cpu", "numa")

_Finding = tuple[str, str, str, str]  # code, where, message behind the name, help


def beyond_models(inspection: Inspection) -> Iterator[Diagnostic]:
    """Figures that GPUs of the stated model, or their NICs, do not have."""
    topology = inspection.topology
    models = {v.model for v in topology.vertices[: topology.ranks]}
    known = {model: limits for model in models if model and (limits := limits_of(model)) is not None}
    damaged = broken(inspection)
    found: dict[_Finding, list[str]] = defaultdict(list)
    by_server: dict[str, Limits] = {}
    domains: dict[str, dict[str, int]] = defaultdict(Counter)
    leaving: dict[int, list[Wire]] = defaultdict(list)
    for wire in topology.wires:
        leaving[wire.src].append(wire)
    for rank, vertex in enumerate(topology.vertices[: topology.ranks]):
        limits = known.get(vertex.model)
        if limits is None:
            continue
        by_server.setdefault(vertex.server, limits)
        domains[vertex.server][limits.name] += 1
        for code, message, help_ in _gpu(topology, leaving[rank], limits, whole=vertex.server not in damaged):
            found[code, vertex.server, message, help_].append(vertex.name)
    for server, counts in domains.items():
        limits = by_server[server]
        gpus = counts[limits.name]
        if gpus > limits.together:
            message = f"{gpus} GPUs in a server, where {limits.name} is in servers of at most {limits.together}"
            help_ = "say how many GPUs one server has; `instance a[0-1] = ...` makes several"
            names = [v.name for v in topology.vertices[: topology.ranks] if v.server == server]
            found["HS254", server, message, help_] = names
    for part in inspection.parts:
        beside = by_server.get(part.server) if part.kind == "nic" else None
        if beside is not None and part.bandwidth is not None and not part.disabled:
            said = _nic(part.bandwidth * part.lanes, beside)
            if said is not None:
                found["HS252", part.server, *said].append(part.name)
    yield from told(inspection, found)


def _gpu(topology: Topology, wires: list[Wire], limits: Limits, *, whole: bool) -> Iterator[tuple[str, str, str]]:
    """What is wrong about the wires that leave one GPU."""
    stated, other, switched = Fraction(0), Fraction(0), Fraction(0)
    name, word = limits.name, limits.word
    for wire in wires:
        far = topology.vertices[wire.dst]
        if wire.bandwidth is None or far.kind in NETWORK_KINDS:
            continue
        rate, kind = wire.bandwidth * wire.lanes, wire.kind.lower()
        local = far.name.rpartition(".")[2].lower()
        if far.kind == "nic" or far.kind in HOST_KINDS or "pcie" in kind or local.startswith(("pcie", "plx")):
            if rate > limits.slot * _SLACK:
                message = (
                    f"{gb(rate)} of PCIe in one direction, where sixteen lanes of {name} carry {gb(limits.slot)}"
                )
                yield "HS252", message, _both(rate, limits.slot) or "is it PCIe of a later generation?"
            continue
        if kind in _NVLINK_KINDS:
            stated += rate
        elif kind not in _FAR_KINDS:
            other += rate
        else:
            continue
        if far.kind == "switch":
            switched += rate
        elif far.kind == "gpu" and whole and limits.links and rate * 2 < limits.least:
            message = f"has a connection of {gb(rate)} to another GPU, where one {word} of {name} carries {gb(limits.spec)}"
            yield "HS252", message, _slower(rate, limits.spec)
    if stated and not limits.links:
        yield "HS252", f"{word} ({gb(stated)}), and {name} has none", "state `kind pcie`, or another model"
        return
    most, spec = limits.links * limits.most, limits.links * limits.spec
    total = stated + other
    if total > (most + (limits.slot if other else 0)) * Fraction(102, 100):
        shown = f"{limits.links} links of {gb(limits.spec)}, {gb(spec)}" if limits.links else gb(limits.slot)
        message = f"{gb(total)} to other GPUs in one direction, where {name} has {shown}"
        yield (
            "HS252",
            message,
            _both(total, spec)
            or (_other(total, name) if switched == total else "")
            or f"at most {gb(spec or limits.slot)} are possible: one direction, bytes and not bits?",
        )
    elif switched == total and whole and limits.links and switched and total < limits.links * limits.least:
        like = _other(total, name)
        if like or total * 2 < limits.links * limits.least:
            message = f"{gb(total)} to its switch, where {name} has {limits.links} links of {gb(limits.spec)}, {gb(spec)}"
            yield "HS252", message, like or _slower(total, spec)


def _both(rate: Fraction, spec: Fraction) -> str:
    """The help where ``rate`` is about twice what there is."""
    if Fraction(19, 10) * spec <= rate <= Fraction(22, 10) * spec:
        return f"{gb(rate)} is both directions together: state one, {gb(spec)}"
    return ""


def _other(rate: Fraction, name: str) -> str:
    model = model_with(rate)
    return f"{gb(rate)} is what {model} has: is the model right?" if model and model not in name else ""


def _slower(rate: Fraction, spec: Fraction) -> str:
    if rate * _BITS * 2 >= spec >= rate * _BITS / 2:
        return f"did you mean {gb(rate * _BITS)}? (b is a bit, B a byte)"
    return f"where it is slow on purpose, state {gb(spec)} and `degrade` it"


def _nic(rate: Fraction, limits: Limits) -> tuple[str, str] | None:
    """What is wrong about a NIC of ``rate`` beside GPUs with ``limits``."""
    gbps = rate * _BITS / GB
    if rate < limits.nic:
        message = f"{float(gbps):g} Gbps, where NICs of servers with {limits.name} have {float(limits.nic * 8 / GB):g} and more"
    elif gbps not in _LINE_RATES and gbps * _BITS in _LINE_RATES[4:] and limits.links:
        message = f"{float(gbps):g} Gbps ({gb(rate)}), which no NIC has"
    else:
        return None
    meant = gbps * _BITS in _LINE_RATES
    return message, (
        f"did you mean {float(gbps):g} GB/s, {float(gbps * _BITS):g} Gbps? (b is a bit, B a byte)"
        if meant
        else "where it is slow on purpose, state the NIC's rate and `degrade` it"
    )


def behind_nics(inspection: Inspection) -> Iterator[Diagnostic]:
    """NICs with more than what leads from them to GPUs carries; and of a server the few with less than the rest."""
    topology = inspection.topology
    damaged = broken(inspection)
    numbers = {vertex.name: i for i, vertex in enumerate(topology.vertices)}
    leaving: dict[int, list[Wire]] = defaultdict(list)
    for wire in topology.wires:
        leaving[wire.src].append(wire)
    slots = {model: known.slot for model in {v.model for v in topology.vertices} if (known := limits_of(model))}
    found: dict[_Finding, list[str]] = defaultdict(list)
    inward: dict[str, list[tuple[Part, Fraction]]] = defaultdict(list)
    for part in inspection.parts:
        if part.kind != "nic" or part.disabled or part.bandwidth is None or part.server in damaged:
            continue
        rate = max(
            part.bandwidth * part.lanes,
            *([part.receive[0] * part.receive[1]] if part.receive else []),
            Fraction(0),
        )
        carried = _carried(topology, leaving, slots, numbers[part.name])
        if carried is not None and carried > 0:
            inward[part.server].append((part, carried))
        if carried is not None and 0 < carried * _SLACK < rate:
            message = f"{gb(rate)}, and what joins it to GPUs carries {gb(carried)}"
            found["HS253", part.server, message, _meant_nic(rate, carried)].append(part.name)
    for server, nics in inward.items():
        usual, alike = Counter(rate for _, rate in nics).most_common(1)[0]
        less = [(part, rate) for part, rate in nics if rate * 2 <= usual]
        if less and alike == len(nics) - len(less) and len(less) <= max(1, len(nics) // 4) and alike > 1:
            for part, rate in less:
                message = f"joined to GPUs with {gb(rate)}, where {alike} others of its server have {gb(usual)}"
                found["HS253", server, message, "check the lanes of its slot, x8 or x16"].append(part.name)
    yield from told(inspection, found)


def _meant_nic(rate: Fraction, carried: Fraction) -> str:
    """The help for a NIC with more than what is behind it."""
    number = rate / GB
    bits = ""
    if number in _LINE_RATES and rate / _BITS <= carried * _SLACK:
        bits = f"{float(number):g} Gbps ({gb(rate / _BITS)}), or "
    return f"did you mean {bits}a slot of more lanes (x8, x16) or a later generation?"


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
            if (
                wire.dst in seen
                or far.kind in NETWORK_KINDS
                or far.kind == "nic"
                or far.server != topology.vertices[nic].server
            ):
                continue
            seen.add(wire.dst)
            rates = [wire.bandwidth * wire.lanes] if wire.bandwidth is not None else []
            behind = slots.get(far.model) if far.kind == "gpu" else through(wire.dst, depth + 1)
            rates += [behind] if behind is not None else []
            if not rates:
                return None
            total += min(rates)
        return total

    return through(nic)


def told(inspection: Inspection, found: dict[_Finding, list[str]]) -> Iterator[Diagnostic]:
    """A warning for all servers, or parts of one, of which the same is found."""
    spans = {part.name: part.span for part in inspection.parts}
    alike: dict[tuple[str, Span, str, str], list[str]] = defaultdict(list)
    for (code, server, message, help_), names in found.items():
        alike[code, in_file(inspection, spans[names[0]], server), message, help_] += names
    for (code, span, message, help_), names in alike.items():
        yield Diagnostic(code, span, f"{listed(names)}: {message}", help_, "warning")
