"""Hardware that differs from its twins, and hardware that nothing uses (HS240, HS244, HS245, HS248).

In: the cluster as built, with the spans of its parts. Out: findings. What is out of order on purpose (`disable`,
`without`, `down`, `degrade`) makes its server different, and nothing is said of that server.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

from hetesynth.model.diagnostics import Diagnostic, Span
from hetesynth.model.topology import Topology
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.inspection import Inspection
from hetesynth.topology.language.library import library_path
from hetesynth.topology.language.names import Part, expand
from hetesynth.topology.language.reachability import unreachable_pairs
from hetesynth.topology.language.syntax import Degrade, Down, Instance, PodType
from hetesynth.topology.lint.roles import PartIndex

FEW = 2  # GPUs of a server that may be the odd ones; more are a shape, such as the corners of a grid
_SHOWN = 6
_SOCKETS = ("cpu", "numa")  # they are there, whether NVLink makes them needless or not
_POINT = 10  # times that a latency may be that of the way back: a decimal point

_Ends = tuple[int, int]


def unlike_twins(inspection: Inspection) -> Iterator[Diagnostic]:
    """Yield servers of whose GPUs one or two have less than the others, most of which are alike."""
    topology = inspection.topology
    vertices, damaged = topology.vertices, broken(inspection)
    sums = [Fraction(0)] * topology.ranks  # what each GPU can send over wires that limit, NICs aside
    for wire in topology.wires:
        if wire.src < topology.ranks and wire.bandwidth is not None:
            far = vertices[wire.dst]
            if far.kind not in ("nic", "fabric") and far.server == vertices[wire.src].server:
                sums[wire.src] += wire.bandwidth * wire.lanes
    servers: dict[str, list[int]] = defaultdict(list)
    for rank, server in enumerate(topology.servers):
        if server not in damaged:
            servers[server].append(rank)
    local = [vertices[rank].name.removeprefix(f"{server}.") for rank, server in enumerate(topology.servers)]
    spans = {part.name: part.span for part in inspection.parts}
    alike: dict[tuple[Span, str], list[str]] = defaultdict(list)
    for server, ranks in servers.items():
        usual, twins = Counter(sums[rank] for rank in ranks).most_common(1)[0]
        lesser = [rank for rank in ranks if sums[rank] < usual]
        if 2 * twins < len(ranks) or not 0 < len(lesser) <= min(FEW, len(ranks) // 4):
            continue
        told = ", ".join(f"{local[rank]} {gb(sums[rank])}" for rank in lesser)
        told += f", where {twins} others have {gb(usual)}"
        alike[spans[vertices[ranks[0]].name], told].append(server)
    for (span, told), names in alike.items():
        message = f"unlike its twins inside {listed(names)}: {told}"
        help_ = "add the missing link; slow on purpose: `degrade` it; out of order: `disable` the GPU"
        yield Diagnostic("HS240", in_file(inspection, span, names[0]), message, help_, "warning")


def broken(inspection: Inspection) -> set[str]:
    """The servers with something that is stated to be out of order or slower than it was."""
    servers = {part.server for part in inspection.parts if part.disabled}
    pods = [node for node in inspection.expanded.values() if isinstance(node, PodType)]
    index: PartIndex | None = None
    for item in (*inspection.stated, *pods):
        for statement in item.items:
            if isinstance(statement, (Down, Degrade)):
                index = index or PartIndex(inspection.parts)
                servers.update(part.server for part in index.matching((*statement.left, *statement.right)))
    return servers


def _between_gpus(topology: Topology) -> dict[str, dict[_Ends, Fraction]]:
    """What wires between two GPUs of a server carry together, by server and ends."""
    rates: dict[str, dict[_Ends, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for wire in topology.wires:
        src, dst = topology.vertices[wire.src], topology.vertices[wire.dst]
        if src.kind == dst.kind == "gpu" and src.server == dst.server and wire.bandwidth is not None:
            rates[src.server][wire.src, wire.dst] += wire.bandwidth * wire.lanes
    return rates


def one_way(inspection: Inspection) -> Iterator[Diagnostic]:
    """Yield wires between two GPUs of a server in one direction, where most have both; and unequal directions."""
    topology = inspection.topology
    damaged = broken(inspection)
    names = [vertex.name for vertex in topology.vertices]
    spans = {part.name: part.span for part in inspection.parts}
    for server, ends in _between_gpus(topology).items():
        if server in damaged:
            continue
        alone = [(a, b) for a, b in ends if (b, a) not in ends]
        if alone and 2 * len(alone) <= len(ends):
            shown = ", ".join(f"{names[a]} -> {names[b]}" for a, b in alone[:_SHOWN])
            message = f"`{server}` has a link in one direction only, where the others have both: {shown}"
            help_ = "write `<->`, or add the link back"
            yield Diagnostic("HS244", spans[names[alone[0][0]]], message, help_, "warning")
        unequal = [(a, b) for a, b in ends if a < b and (b, a) in ends and ends[a, b] != ends[b, a]]
        if unequal:
            a, b = unequal[0]
            message = f"{names[a]} sends {gb(ends[a, b])} to {names[b]} and receives {gb(ends[b, a])}"
            yield Diagnostic("HS244", spans[names[a]], message, "", "note")
    latencies = {
        (wire.src, wire.dst): wire.latency
        for wire in topology.wires
        if max(wire.src, wire.dst) < topology.ranks and topology.servers[wire.src] not in damaged
    }
    for (a, b), longer in latencies.items():
        if 0 < (shorter := latencies.get((b, a), longer)) * _POINT <= longer:
            there, back = (f"{float(latency * 10**6):.6g} us" for latency in (longer, shorter))
            message = f"{names[a]} reaches {names[b]} in {there}, the way back takes {back}"
            help_ = "a link has the same latency both ways: is a decimal point in its place?"
            yield Diagnostic("HS244", spans[names[a]], message, help_, "warning")


def unlike_nics(inspection: Inspection) -> Iterator[Diagnostic]:
    """NICs of one server with unlike rates."""
    nics: dict[str, list[Part]] = defaultdict(list)
    for part in inspection.parts:
        if part.kind == "nic" and not part.disabled and part.bandwidth is not None:
            nics[part.server].append(part)
    alike: dict[tuple[Span, str], list[str]] = defaultdict(list)
    for server, parts in nics.items():
        by_rate: dict[Fraction, list[Part]] = defaultdict(list)
        for part in parts:
            by_rate[(part.bandwidth or Fraction(0)) * part.lanes].append(part)
        if len(by_rate) > 1:
            rates = [f"{local_name(group[0])} {gb(rate)}" for rate, group in sorted(by_rate.items())]
            alike[parts[0].span, ", ".join(rates[:_SHOWN])].append(server)
    for (span, shown), servers in alike.items():
        message = f"the NICs of {listed(servers)} have unlike rates: {shown}"
        yield Diagnostic("HS244", span, message, "check the width of their slots, x8 or x16", "note")


def idle(inspection: Inspection) -> Iterator[Diagnostic]:
    """Hardware that no link crosses, and GPUs that only one direction reaches."""
    topology = inspection.topology
    if inspection.cluster is None:
        return
    crossed = {topology.wires[w].src for link in topology.links for w in link.wires}
    damaged = broken(inspection)
    spans = {part.name: part.span for part in inspection.parts}
    by_span: dict[tuple[Span, str], list[str]] = defaultdict(list)
    to_nics: set[int] = set()  # NICs, and what stands between them and the rest: a server alone needs neither
    if len(set(topology.servers)) == 1:
        beside: dict[int, set[int]] = defaultdict(set)
        for wire in topology.wires:
            beside[wire.src].add(wire.dst)
            beside[wire.dst].add(wire.src)
        border = [i for i, vertex in enumerate(topology.vertices) if vertex.kind == "nic"]
        to_nics.update(border)
        while border:
            reached = {other for i in border for other in beside[i]} - crossed - to_nics
            border = [i for i in reached if i >= topology.ranks]
            to_nics.update(border)
    for number in range(topology.ranks, len(topology.vertices)):
        vertex = topology.vertices[number]
        needless = number in crossed or vertex.server in damaged or number in to_nics or vertex.kind in _SOCKETS
        if not needless and vertex.name in spans:
            by_span[spans[vertex.name], vertex.kind].append(vertex.name)
    for (span, kind), names in by_span.items():
        what = {"nic": "NIC"}.get(kind, kind)
        message = f"no link between GPUs uses {what} {listed(names)}"
        help_ = "join it with a fabric, or remove it" if kind == "nic" else "join GPUs through it, or remove it"
        yield Diagnostic("HS245", span, message, help_, "warning")
    pairs = unreachable_pairs(topology)
    if pairs:
        a, b = pairs[0]
        ends = f"from {topology.vertices[a].name} to {topology.vertices[b].name}"
        message = f"no chain of links leads {ends} ({len(pairs)} such pairs)"
        help_ = "write `<->` where data may flow both ways: most collectives need every pair"
        yield Diagnostic("HS245", inspection.cluster.name.span, message, help_, "warning")


def unlike_servers(inspection: Inspection) -> Iterator[Diagnostic]:
    """Servers of one node type whose rates were changed: told, as it is the point of many files."""
    if inspection.cluster is None:
        return
    rates: dict[str, list[tuple[str, object]]] = defaultdict(list)
    for part in inspection.parts:
        rates[part.server].append((local_name(part), (part.bandwidth, part.lanes, part.latency, part.disabled)))
    shapes: dict[str, dict[object, list[str]]] = defaultdict(lambda: defaultdict(list))
    for server, type_ in inspection.servers:
        shapes[type_][tuple(rates[server])].append(server)
    for node, alike in shapes.items():
        if len(alike) > 1:
            shown = "; ".join(listed(names) for names in list(alike.values())[:_SHOWN])
            message = f"servers of type `{node}` differ: {shown}"
            yield Diagnostic("HS248", inspection.cluster.name.span, message, "", "note")


def in_file(inspection: Inspection, span: Span, server: str) -> Span:
    """``span``, or where the library is not the user's to change the instance that ``server`` is."""
    if inspection.cluster is None or library_path(Path(span.file).stem) != Path(span.file):
        return span
    head = server.partition(".")[0]
    for item in inspection.stated[-1].items:
        if isinstance(item, Instance):
            names = expand(item.name, Findings())
            if head in names or (item.count is not None and head.startswith(tuple(names))):
                return item.name.span
    return span


def local_name(part: Part) -> str:
    """Return the name of a part without that of its server."""
    return part.name.removeprefix(f"{part.server}.")


def listed(names: Sequence[str]) -> str:
    """The first of ``names``, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(f"`{name}`" for name in names[:_SHOWN]) + more


def gb(rate: Fraction) -> str:
    """``450 GB/s``."""
    return f"{float(rate / 10**9):.6g} GB/s"
