"""What ``topo show`` prints: GPUs, links by kind, shared resources, rounding errors.

In: a chunking. Out: text, and plain values for JSON. Decides nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hetesynth.report.text import EXACT
from hetesynth.report.words import size_text

if TYPE_CHECKING:
    from hetesynth.chunking import Capacity, Chunking

SHOWN_NAMES = 4


def topology_report(chunking: Chunking, *, every: bool) -> str:
    """The graph G = (V, E) with C(u, v), the shared resources with C_g, and the error of each."""
    topology = chunking.topology
    lines = [
        f"{topology.name}: {topology.ranks} GPUs, {len(topology.links)} links, "
        f"{len(chunking.shared())} shared wires and groups",
        f"  chunk {size_text(chunking.chunk_bytes, EXACT)}, tau_ref {_us(chunking.tau_ref)} "
        f"({chunking.reference}), rounding {chunking.options.rounding}",
        "",
        *_gpus(chunking),
        "",
        "  links, u->v (eq. 1: C = round(tau_ref / tau) x lanes)",
        *_table(((f"{x.src}->{x.dst}", c) for x, c in zip(topology.links, chunking.links, strict=True)), every),
        "",
        "  shared by several links",
        *_table(((c.name, c) for c in chunking.shared()), every),
    ]
    lines += ["", *(f"  note: {note}" for note in topology.notes)] if topology.notes else []
    return "\n".join(lines)


def _gpus(chunking: Chunking) -> Iterator[str]:
    by_server: dict[tuple[str, str], list[int]] = defaultdict(list)
    for rank in range(chunking.topology.ranks):
        vertex = chunking.topology.vertices[rank]
        by_server[vertex.server, vertex.model].append(rank)
    for (server, model), ranks in by_server.items():
        where = f"ranks {ranks[0]}-{ranks[-1]}" if len(ranks) > 1 else f"rank {ranks[0]}"
        yield f"  {server or '-':<12} {len(ranks)} x {model or 'GPU':<8} {where}"


def _table(named: Iterable[tuple[str, Capacity]], every: bool) -> Iterator[str]:
    alike: dict[tuple[str, int, int, Fraction, Fraction], list[str]] = defaultdict(list)
    for name, c in named:
        alike[c.kind, c.chunks, c.lanes, c.tau, c.error].append(name)
    if not alike:
        yield "    none"
        return
    count = "" if every else "  count"
    yield f"    {'kind':<12} {'C':>4} {'lanes':>5} {'tau':>10} {'error':>8}{count}  which"
    for (kind, chunks, lanes, tau, error), names in alike.items():
        row = f"    {kind:<12} {chunks:>4} {lanes:>5} {_us(tau):>10} {float(error):>+8.1%}  "
        if every:
            yield from (row + name for name in names)
        else:
            more = ", ..." if len(names) > SHOWN_NAMES else ""
            yield f"{row}{len(names):>5}  {', '.join(names[:SHOWN_NAMES])}{more}"


def _us(seconds: Fraction) -> str:
    return f"{float(seconds * 1_000_000):.4g} us"


def graph_summary(chunking: Chunking) -> dict[str, Any]:
    """The object ``topo show --json`` prints: the multigraph as nodes and edges, and the shared resources."""
    graph = chunking.graph()
    return {
        "cluster": chunking.topology.name,
        "ranks": chunking.topology.ranks,
        "chunk_bytes": chunking.chunk_bytes,
        "tau_ref_us": float(chunking.tau_ref * 1_000_000),
        "rounding": chunking.options.rounding,
        "gpus": [{"rank": rank, **data} for rank, data in graph.nodes(data=True)],
        "links": [
            {"src": u, "dst": v, "link": key, **data} for u, v, key, data in graph.edges(keys=True, data=True)
        ],
        "shared": [
            {"name": c.name, "kind": c.kind, "capacity": c.chunks, "error": float(c.error)}
            for c in chunking.shared()
        ],
        "notes": list(chunking.topology.notes),
    }
