"""What a finished cluster must satisfy beyond its syntax and names.

In: the hardware, its graph, the topology. Out: findings.
"""

from __future__ import annotations

from collections.abc import Sequence

from hetesynth.model.diagnostics import Span
from hetesynth.model.topology import NETWORK_KINDS, Link, Rank, Topology, Vertex, Wire
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.hardware_graph import HardwareGraph
from hetesynth.topology.language.paths import TooManyPaths, links_over
from hetesynth.topology.language.reachability import separate_parts

_SHOWN_PARTS = 4


def attached_nics(
    hardware: HardwareGraph, vertices: Sequence[Vertex], wires: Sequence[Wire], findings: Findings
) -> None:
    """Every working NIC serves something: a GPU, a switch or a bus, unless all it served is disabled."""
    served: set[str] = set(hardware.served)
    for wire in wires:
        src, dst = vertices[wire.src], vertices[wire.dst]
        served.update(
            a.name for a, b in ((src, dst), (dst, src)) if b.kind != "nic" and b.kind not in NETWORK_KINDS
        )
    for part in hardware.parts:
        if part.kind == "nic" and not part.disabled and part.name not in served:
            message = f"no GPU uses NIC `{part.name}`"
            findings.add("HS213", part.span, message, "attach a GPU to it (`attach gpu0 -> nic0`), or remove it")


def limited_links(
    vertices: Sequence[Vertex], wires: Sequence[Wire], ranks: int, span: Span, findings: Findings
) -> tuple[Link, ...]:
    """The links between all GPUs; past the limits of paths a finding ends the work."""
    try:
        return links_over(vertices, wires, ranks)
    except TooManyPaths as error:
        help_ = "name fewer GPUs, NICs or switches, or state several wires of one pair as one: 25 GB/s x 4"
        findings.add("HS208", span, str(error), help_)
    findings.raise_any()
    return ()


def connected(topology: Topology, span: Span, findings: Findings) -> None:
    """All GPUs hang together; one-way links are legal."""
    parts = separate_parts(topology)
    if len(parts) == 1:
        return
    alone = [part[0] for part in parts if len(part) == 1]
    shown = "; ".join(_members(topology, part) for part in parts[:_SHOWN_PARTS])
    more = f"; and {len(parts) - _SHOWN_PARTS} more" if len(parts) > _SHOWN_PARTS else ""
    message = f"the GPUs fall into {len(parts)} parts that cannot reach each other: {shown}{more}"
    if alone and len(parts) - len(alone) <= 1:
        names = ", ".join(topology.vertices[rank].name for rank in alone[:8])
        message = f"{names} can reach no other GPU (rank {', '.join(map(str, alone[:8]))})"
    findings.add(
        "HS217", span, message, "join their NICs with a fabric (`fabric ib { join *.nic*; }`) or add a link"
    )


def _members(topology: Topology, part: list[Rank]) -> str:
    """``ranks 0-3 (a.gpu0 to a.gpu3)``."""
    first, last = topology.vertices[part[0]].name, topology.vertices[part[-1]].name
    if len(part) == 1:
        return f"rank {part[0]} ({first})"
    if part == list(range(part[0], part[-1] + 1)):
        return f"ranks {part[0]}-{part[-1]} ({first} to {last})"
    return f"ranks {', '.join(map(str, part[:8]))}{', ...' if len(part) > 8 else ''}"
