"""``hetesynth topo show``: what a topology file describes, in an operator's units, with its capacities."""

import json
import os
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from hetesynth import api
from hetesynth.cli.options import FILE, NewPath, chunking_options, json_option, topology_losses
from hetesynth.cli.terminal import SHOWN_NAMES, show, show_lines, some
from hetesynth.deploy.topology_files import Look, look
from hetesynth.model.rank_places import rank_places
from hetesynth.model.words import EXACT, counted, size_text, table
from hetesynth.report.cluster_facts import ClusterFacts
from hetesynth.search.chunking import Capacity

IN_JSON: dict[str, tuple[str, Fraction | int | None]] = {  # fields of facts: their names, and what is counted in
    "inside": ("inside_a_server", None),
    "rate": ("gbytes_per_second", 10**9),
    "latency": ("latency_us", Fraction(1, 10**6)),
    "sharers": ("gpus", None),
    "offered": ("offered_gbytes_per_second", 10**9),
}


@click.command(name="show")
@click.argument("topology", type=FILE)
@chunking_options
@click.option("--all", "every", is_flag=True, help="Every GPU and every link, not one line for those alike.")
@click.option("--svg", type=NewPath(".svg"), metavar="FILE.svg", help="Draw the cluster.")
@click.option("--graphml", type=NewPath(".graphml", ".xml"), metavar="FILE.graphml", help="Write the graph.")
@json_option
@topology_losses
def command(
    topology: os.PathLike[str], every: bool, svg: Path | None, graphml: Path | None, as_json: bool, **rates: Any
) -> None:
    """Print where every rank is, the links by class and what GPUs have to share, in GB/s and microseconds.

    Then the capacities of steps: C(u, v) of links and C_g of what they share, each with its rounding error.
    """
    seen = look(topology, api.chunking_options(**rates), svg, graphml)
    show_lines(graph_document(seen) if as_json else topology_report(seen, every=every))
    for path in () if as_json else filter(None, (svg, graphml)):
        show(f"  wrote {path}")


def topology_report(look: Look, *, every: bool) -> Iterator[str]:
    """Yield servers, links, bottlenecks and switches; then C(u, v) and C_g, each with its rounding error."""
    chunking, facts, warnings = look
    topology, shared = chunking.topology, chunking.shared()
    yield (
        f"{topology.name}: {counted(topology.ranks, 'GPU')}, {counted(len(facts.servers), 'server')}, "
        f"{counted(len(topology.links), 'link')}, {len(shared)} shared wires and groups"
    )
    yield from ("", *table(_servers(facts, topology.models), indent="    "))
    if every:
        gpus = [
            (str(g.rank), g.host or "-", g.server or "-", str(g.device), topology.models[g.rank] or "-")
            for g in rank_places(topology)
        ]
        yield from ("", *table([("rank", "host", "server", "GPU", "model"), *gpus], right=(0, 3), indent="    "))
    yield from ("", "  links by class")
    rows = [("where", "kind", "GB/s", "lanes", "us", "links", "which")]
    for c in facts.links:
        where, us = "in a server" if c.inside else "between servers", f"{float(c.latency * 1_000_000):.4g}"
        which = ", ".join(f"{src}->{dst}" for src, dst in c.examples) + ", ..." * (c.count > len(c.examples))
        rows.append((where, c.kind, _gb(c.rate), str(c.lanes), us, str(c.count), which))
    yield from table(rows, right=(2, 3, 4, 5), indent="    ")
    yield from ("", "  bottlenecks: shared by several GPUs or links, with less than they could use")
    yield from _bottlenecks(facts)
    if facts.capable:
        yield from ("", "  switches that do more than forward")
        switches: dict[str, list[str]] = defaultdict(list)
        for switch in facts.capable:
            switches[", ".join(switch.capabilities)].append(switch.name)
        yield from (f"    {capable}: {some(names)}" for capable, names in switches.items())
    size, reference = size_text(chunking.chunk_bytes, EXACT), f"{_us(chunking.tau_ref)} ({chunking.reference})"
    yield from ("", f"  chunk {size}, tau_ref {reference}, rounding {chunking.options.rounding}")
    yield from ("", "  links, u->v (eq. 1: C = round(tau_ref / tau) x lanes)")
    yield from _table(chunking.links, lambda i: f"{topology.links[i].src}->{topology.links[i].dst}", every)
    yield from ("", "  shared by several links")
    yield from _table(shared, lambda i: shared[i].name, every)
    if topology.notes:
        yield from ("", *(f"  note: {note}" for note in topology.notes))
    if warnings:
        yield ""
        for d in warnings:
            yield f"  warning: {d.span.file}:{d.span.line}:{d.span.column}: {d.code}: {d.message}"


def _servers(facts: ClusterFacts, models_of: Sequence[str]) -> list[tuple[str, ...]]:
    """A row for each server."""
    rows: list[tuple[str, ...]] = [("server", "host", "GPUs", "ranks", "are GPUs", "NICs")]
    for server in facts.servers:
        models = Counter(models_of[g.rank] or "GPU" for g in server.gpus)
        nics = Counter("not joined" if rate is None else f"{_gb(rate)} GB/s" for rate in server.nics)
        gpus = " + ".join(f"{n} x {model}" for model, n in models.items())
        numbers = ranges(g.rank for g in server.gpus), ranges(g.device for g in server.gpus)
        joined = ", ".join(f"{n} x {rate}" for rate, n in nics.items()) or "-"
        rows.append((server.name or "-", server.host or "-", gpus, *numbers, joined))
    return rows


def _bottlenecks(facts: ClusterFacts) -> Iterable[str]:
    """Return a table with alike bottlenecks in one row: rate, sharers, and the share of each when all send."""
    alike: dict[tuple[str, Fraction, int, Fraction | None], list[str]] = defaultdict(list)
    for b in facts.bottlenecks:
        alike[b.kind, b.rate, b.sharers, b.offered].append(b.name)
    rows = [("GB/s", "kind", "GPUs", "GB/s each", "offered", "wires", "which")]
    for (kind, rate, sharers, offered), names in alike.items():
        share = f"{_gb(offered)} ({float(offered / rate):.3g} : 1)" if offered is not None else "-"
        figures = _gb(rate / sharers), share, str(len(names))
        rows.append((_gb(rate), kind, str(sharers), *figures, some(names)))
    return table(rows, right=(0, 2, 3, 4, 5), indent="    ") if alike else ["    none"]


def ranges(numbers: Iterable[int]) -> str:
    """``0-3, 8``: numbers in their order, those that follow each other as a range."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and runs[-1][-1] + 1 == n:
            runs[-1][1:] = [n]
        else:
            runs.append([n])
    return ",".join("-".join(map(str, run)) for run in runs)


def _gb(rate: Fraction) -> str:
    return f"{float(rate) / 1e9:.4g}"


def _table(capacities: Sequence[Capacity], name: Callable[[int], str], every: bool) -> Iterator[str]:
    """Yield a line for each kind of capacity, with some of its names; below it, for ``every``, all its names."""
    by_identity: dict[int, array[int]] = defaultdict(lambda: array("q"))
    for i, c in enumerate(capacities):  # very many links share few values, and hashing these is slow
        by_identity[id(c)].append(i)
    alike: dict[tuple[str, int, int, Fraction, Fraction], array[int]] = defaultdict(lambda: array("q"))
    for same in by_identity.values():
        c = capacities[same[0]]
        alike[c.kind, c.chunks, c.lanes, c.tau, c.error].extend(same)
    rows = [("kind", "C", "lanes", "tau", "error", "count", "which")]
    for (kind, chunks, lanes, tau, error), which in alike.items():
        first = ", ".join(map(name, which[:SHOWN_NAMES])) + ", ..." * (len(which) > SHOWN_NAMES)
        rows.append((kind, str(chunks), str(lanes), _us(tau), f"{float(error):+.1%}", str(len(which)), first))
    title, *lines = table(rows, right=(1, 2, 3, 4, 5), indent="    ")
    yield title if lines else "    none"
    for line, which in zip(lines, alike.values(), strict=True):
        yield line
        yield from (f"      {name(i)}" for i in which if every)


def _us(seconds: Fraction) -> str:
    return f"{float(seconds * 1_000_000):.4g} us"


def _fact(fact: object, *fields: str) -> dict[str, Any]:
    """Return ``fields`` of ``fact`` with their names and units in JSON."""
    values: dict[str, Any] = {}
    for field in fields:
        name, unit = IN_JSON.get(field, (field, None))
        value = getattr(fact, field)
        values[name] = value if unit is None or value is None else float(value / unit)
    return values


def graph_document(look: Look) -> Iterator[str]:
    """Yield the lines of ``topo show --json``: the multigraph as nodes and edges, and what is shared. The links of
    a large cluster are millions: their lines are made one by one, and what they have in common once."""
    chunking, facts, warnings = look
    topology = chunking.topology
    shared = [
        {"name": c.name, "kind": c.kind, "capacity": c.chunks, "error": float(c.error)} for c in chunking.shared()
    ]

    names = ("rank", "name", "server", "host", "number", "model")
    pairs = zip(topology.vertices, rank_places(topology), strict=False)
    gpus = [(g.rank, v.name, g.server, g.host, g.device, v.model) for v, g in pairs]
    head = {
        "cluster": topology.name,
        "ranks": topology.ranks,
        "chunk_bytes": chunking.chunk_bytes,
        "tau_ref_us": float(chunking.tau_ref * 1_000_000),
        "rounding": chunking.options.rounding,
        "gpus": [dict(zip(names, gpu, strict=True)) for gpu in gpus],
        "servers": [
            {
                **_fact(s, "name", "host"),
                "ranks": [g.rank for g in s.gpus],
                "nic_gbytes_per_second": [None if rate is None else float(rate / 10**9) for rate in s.nics],
            }
            for s in facts.servers
        ],
        "link_classes": [_fact(c, "kind", "inside", "rate", "lanes", "latency", "count") for c in facts.links],
        "bottlenecks": [_fact(b, "name", "kind", "rate", "sharers", "offered") for b in facts.bottlenecks],
        "capabilities": [{"name": c.name, "capabilities": list(c.capabilities)} for c in facts.capable],
    }
    yield json.dumps(head, indent=2).removesuffix("\n}") + ","
    yield '  "links": ['
    alike: dict[tuple[int, str, int], str] = {}
    for index, (link, c) in enumerate(zip(topology.links, chunking.links, strict=True)):
        key = (id(c), link.kind, link.lanes)
        if key not in alike:
            error = {"tau": float(c.tau), "error": float(c.error)}
            values = {"capacity": c.chunks, "kind": link.kind, "lanes": link.lanes, **error}
            alike[key] = json.dumps(values).removeprefix("{")
        comma = "," if index + 1 < len(topology.links) else ""
        yield f'    {{"src": {link.src}, "dst": {link.dst}, "link": {index}, {alike[key]}{comma}'
    yield "  ],"
    tail = {"shared": shared, "notes": list(topology.notes), "warnings": [d.plain() for d in warnings]}
    yield json.dumps(tail, indent=2).removeprefix("{\n")
