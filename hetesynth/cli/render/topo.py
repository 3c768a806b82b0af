"""What ``topo show`` prints: GPUs, links by kind, shared resources, rounding errors.

In: a chunking. Out: lines of text, and of JSON. Decides nothing.
"""

from __future__ import annotations

import json
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from hetesynth.cli.render.synth import EXACT
from hetesynth.report.words import size_text

if TYPE_CHECKING:
    from hetesynth.chunking import Capacity, Chunking

SHOWN_NAMES = 4


def topology_report(chunking: Chunking, *, every: bool) -> Iterator[str]:
    """The graph G = (V, E) with C(u, v), the shared resources with C_g, and the error of each, line by line."""
    topology = chunking.topology
    shared = chunking.shared()
    yield (
        f"{topology.name}: {topology.ranks} GPUs, {len(topology.links)} links, "
        f"{len(shared)} shared wires and groups"
    )
    yield (
        f"  chunk {size_text(chunking.chunk_bytes, EXACT)}, tau_ref {_us(chunking.tau_ref)} "
        f"({chunking.reference}), rounding {chunking.options.rounding}"
    )
    yield from ("", *_gpus(chunking))
    yield from ("", "  links, u->v (eq. 1: C = round(tau_ref / tau) x lanes)")
    yield from _table(chunking.links, lambda i: f"{topology.links[i].src}->{topology.links[i].dst}", every)
    yield from ("", "  shared by several links")
    yield from _table(shared, lambda i: shared[i].name, every)
    if topology.notes:
        yield from ("", *(f"  note: {note}" for note in topology.notes))


def _gpus(chunking: Chunking) -> Iterator[str]:
    by_server: dict[tuple[str, str], list[int]] = defaultdict(list)
    for rank in range(chunking.topology.ranks):
        vertex = chunking.topology.vertices[rank]
        by_server[vertex.server, vertex.model].append(rank)
    for (server, model), ranks in by_server.items():
        where = f"ranks {ranks[0]}-{ranks[-1]}" if len(ranks) > 1 else f"rank {ranks[0]}"
        yield f"  {server or '-':<12} {len(ranks)} x {model or 'GPU':<8} {where}"


def _table(capacities: Sequence[Capacity], name: Callable[[int], str], every: bool) -> Iterator[str]:
    """One line for each kind of capacity, or for ``every`` one; ``name`` of those that a line needs."""
    if not capacities:
        yield "    none"
        return
    count = "" if every else "  count"
    yield f"    {'kind':<12} {'C':>4} {'lanes':>5} {'tau':>10} {'error':>8}{count}  which"
    for c, which in _alike(capacities):
        row = f"    {c.kind:<12} {c.chunks:>4} {c.lanes:>5} {_us(c.tau):>10} {float(c.error):>+8.1%}  "
        if every:
            yield from (row + name(i) for i in which)
        else:
            more = ", ..." if len(which) > SHOWN_NAMES else ""
            yield f"{row}{len(which):>5}  {', '.join(name(i) for i in which[:SHOWN_NAMES])}{more}"


def _alike(capacities: Sequence[Capacity]) -> Iterator[tuple[Capacity, array[int]]]:
    """The capacities that differ in more than their name, each with the places where it stands."""
    places: dict[tuple[str, int, int, Fraction, Fraction], array[int]] = {}
    by_identity: dict[
        int, array[int]
    ] = {}  # by identity: very many links share few values, and hashing these is slow
    first: list[Capacity] = []
    for i, c in enumerate(capacities):
        which = by_identity.get(id(c))
        if which is None:
            key = (c.kind, c.chunks, c.lanes, c.tau, c.error)
            if key not in places:
                places[key] = array("q")
                first.append(c)
            which = by_identity[id(c)] = places[key]
        which.append(i)
    return zip(first, places.values(), strict=True)


def _us(seconds: Fraction) -> str:
    return f"{float(seconds * 1_000_000):.4g} us"


def graph_document(chunking: Chunking) -> Iterator[str]:
    """The object ``topo show --json`` prints, line by line: the multigraph as nodes and edges, and what is shared.

    The links of a large cluster are millions: their lines are made one by one, and what they share once.
    """
    topology = chunking.topology
    vertices = topology.vertices[: topology.ranks]
    gpus = [{"rank": r, "name": v.name, "server": v.server, "model": v.model} for r, v in enumerate(vertices)]
    shared = [
        {"name": c.name, "kind": c.kind, "capacity": c.chunks, "error": float(c.error)} for c in chunking.shared()
    ]
    head = {
        "cluster": topology.name,
        "ranks": topology.ranks,
        "chunk_bytes": chunking.chunk_bytes,
        "tau_ref_us": float(chunking.tau_ref * 1_000_000),
        "rounding": chunking.options.rounding,
        "gpus": gpus,
    }
    yield json.dumps(head, indent=2).removesuffix("\n}") + ","
    yield from _link_lines(chunking)
    yield json.dumps({"shared": shared, "notes": list(topology.notes)}, indent=2).removeprefix("{\n")


def _link_lines(chunking: Chunking) -> Iterator[str]:
    """The list of links with its name and the comma after it."""
    links = chunking.topology.links
    if not links:
        yield '  "links": [],'
        return
    alike: dict[tuple[int, str, int], str] = {}
    yield '  "links": ['
    for index, (link, c) in enumerate(zip(links, chunking.links, strict=True)):
        key = (id(c), link.kind, link.lanes)
        if key not in alike:
            values = {
                "capacity": c.chunks, "kind": link.kind, "lanes": link.lanes, "tau": float(c.tau),
                "error": float(c.error),
            }  # fmt: skip
            alike[key] = "\n".join("    " + line for line in json.dumps(values, indent=2).splitlines()[1:])
        comma = "," if index + 1 < len(links) else ""
        yield (
            f'    {{\n      "src": {link.src},\n      "dst": {link.dst},\n      "link": {index},\n'
            f"{alike[key]}{comma}"
        )
    yield "  ],"
