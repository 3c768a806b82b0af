"""``hetesynth topo show``: what a topology file describes, in an operator's units, with its capacities."""

from __future__ import annotations

import json
import os
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hetesynth.api import chunking_options
from hetesynth.cli.options import TOPOLOGY, Named, json_option, topology_losses
from hetesynth.cli.synth_report import EXACT
from hetesynth.cli.terminal import show, show_lines, table
from hetesynth.model.words import counted, size_text
from hetesynth.search.chunking import ROUNDINGS

if TYPE_CHECKING:
    from hetesynth.deploy.topology_files import Look
    from hetesynth.report.cluster_facts import ClusterFacts
    from hetesynth.search.chunking import Capacity


@click.command(name="show")
@click.argument("topology", type=TOPOLOGY)
@click.option("--chunk-size", metavar="SIZE", help="For example 4MB [default: the topology's, else 1 MB].")
@click.option("--tau-ref", default="slowest", metavar="slowest|KIND|TIME", show_default=True, help="See synth.")
@click.option("--rounding", type=click.Choice(ROUNDINGS), default="ceil", show_default=True, help="See synth.")
@click.option("--all", "every", is_flag=True, help="Every GPU and every link, not one line for those alike.")
@click.option("--svg", type=Named(".svg"), metavar="FILE.svg", help="Draw the cluster.")
@json_option
@topology_losses
def command(
    topology: os.PathLike[str],
    chunk_size: str | None,
    tau_ref: str,
    rounding: str,
    every: bool,
    svg: Path | None,
    as_json: bool,
) -> None:
    """Print where every rank is, the links by class and what GPUs have to share, in GB/s and microseconds.

    Then the capacities of steps: C(u, v) of links and C_g of what they share, each with its rounding error.
    """
    from hetesynth.deploy.topology_files import look

    seen = look(topology, chunking_options(chunk_size, tau_ref, rounding), svg)
    if as_json:
        show_lines(graph_document(seen))
        return
    show_lines(topology_report(seen, every=every))
    if svg is not None:
        show(f"  wrote {svg}")


SHOWN_NAMES = 4


def topology_report(look: Look, *, every: bool) -> Iterator[str]:
    """Yield who is where, what joins them, what they share; then C(u, v), C_g and the error of each."""
    chunking, facts = look.chunking, look.facts
    topology, shared = chunking.topology, chunking.shared()
    yield (
        f"{topology.name}: {counted(topology.ranks, 'GPU')}, {counted(len(facts.servers), 'server')}, "
        f"{counted(len(topology.links), 'link')}, {len(shared)} shared wires and groups"
    )
    yield ""
    if every:
        yield f"    {'rank':>5}  {'host':<12} {'server':<12} {'GPU':>4}  model"
        for g in facts.gpus:
            yield f"    {g.rank:>5}  {g.host or '-':<12} {g.server or '-':<12} {g.number:>4}  {g.model or '-'}"
    else:
        yield from _servers(facts)
    yield from ("", "  links by class")
    rows = [("where", "kind", "GB/s", "lanes", "us", "links", "which")]
    for c in facts.links:
        first = ", ".join(f"{src}->{dst}" for src, dst in c.examples) + (
            ", ..." if c.count > len(c.examples) else ""
        )
        where, us = "in a server" if c.inside else "between servers", f"{float(c.latency * 1_000_000):.4g}"
        rows.append((where, c.kind, _gb(c.rate), str(c.lanes), us, str(c.count), first))
    yield from (f"    {line}" for line in table(rows, right=(2, 3, 4, 5)))
    yield from ("", "  bottlenecks: shared by several GPUs or links, with less than they could use")
    yield from _bottlenecks(facts)
    if facts.capable:
        yield from ("", "  switches that do more than forward")
        switches: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for switch in facts.capable:
            switches[switch.capabilities].append(switch.name)
        for capabilities, names in switches.items():
            more = f", ... ({len(names)} in all)" if len(names) > SHOWN_NAMES else ""
            yield f"    {', '.join(capabilities)}: {', '.join(names[:SHOWN_NAMES])}{more}"
    yield ""
    yield (
        f"  chunk {size_text(chunking.chunk_bytes, EXACT)}, tau_ref {_us(chunking.tau_ref)} "
        f"({chunking.reference}), rounding {chunking.options.rounding}"
    )
    yield from ("", "  links, u->v (eq. 1: C = round(tau_ref / tau) x lanes)")
    yield from _table(chunking.links, lambda i: f"{topology.links[i].src}->{topology.links[i].dst}", every)
    yield from ("", "  shared by several links")
    yield from _table(shared, lambda i: shared[i].name, every)
    if topology.notes:
        yield from ("", *(f"  note: {note}" for note in topology.notes))
    if look.warnings:
        yield ""
        for d in look.warnings:
            yield f"  warning: {d.span.file}:{d.span.line}:{d.span.column}: {d.code}: {d.message}"


def _servers(facts: ClusterFacts) -> Iterator[str]:
    """A line for each server, with a column for hosts where one is stated."""
    rows = [("server", "host", "GPUs", "ranks", "are GPUs", "NICs")]
    for server in facts.servers:
        models = Counter(g.model or "GPU" for g in server.gpus)
        nics = Counter("not joined" if rate is None else f"{_gb(rate)} GB/s" for rate in server.nics)
        rows.append(
            (
                server.name or "-",
                server.host or "-",
                " + ".join(f"{n} x {model}" for model, n in models.items()),
                ranges(g.rank for g in server.gpus),
                ranges(g.number for g in server.gpus),
                ", ".join(f"{n} x {rate}" for rate, n in nics.items()) or "-",
            )
        )
    hosts = any(server.host for server in facts.servers)
    yield from (f"    {line}" for line in table([row if hosts else (row[0], *row[2:]) for row in rows]))


def _bottlenecks(facts: ClusterFacts) -> Iterator[str]:
    """Alike ones in a line: the rate, who shares it, what each has when all send."""
    alike: dict[tuple[str, Fraction, int, Fraction | None], list[str]] = defaultdict(list)
    for b in facts.bottlenecks:
        alike[b.kind, b.rate, b.sharers, b.offered].append(b.name)
    rows = [("GB/s", "kind", "GPUs", "GB/s each", "offered", "wires", "which")]
    for (kind, rate, sharers, offered), names in alike.items():
        which = ", ".join(names[:SHOWN_NAMES]) + (", ..." if len(names) > SHOWN_NAMES else "")
        share = f"{_gb(offered)} ({float(offered / rate):.3g} : 1)" if offered is not None else "-"
        rows.append((_gb(rate), kind, str(sharers), _gb(rate / sharers), share, str(len(names)), which))
    yield from (f"    {line}" for line in table(rows, right=(0, 2, 3, 4, 5))) if alike else ["    none"]


def ranges(numbers: Iterable[int]) -> str:
    """``0-3, 8``: numbers in their order, those that follow each other as a range."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and runs[-1][-1] + 1 == n:
            runs[-1][1:] = [n]
        else:
            runs.append([n])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _gb(rate: Fraction) -> str:
    return f"{float(rate) / 1e9:.4g}"


def _table(capacities: Sequence[Capacity], name: Callable[[int], str], every: bool) -> Iterator[str]:
    """One line for each kind of capacity, or for ``every`` one; ``name`` of those that a line needs."""
    if not capacities:
        yield "    none"
        return
    count = "" if every else "  count"
    yield f"    {'kind':<12} {'C':>4} {'lanes':>5} {'tau':>10} {'error':>8}{count}  which"
    places: dict[tuple[str, int, int, Fraction, Fraction], array[int]] = {}
    by_identity: dict[int, array[int]] = {}  # very many links share few values, and hashing these is slow
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
    for c, which in zip(first, places.values(), strict=True):
        row = f"    {c.kind:<12} {c.chunks:>4} {c.lanes:>5} {_us(c.tau):>10} {float(c.error):>+8.1%}  "
        if every:
            yield from (row + name(i) for i in which)
        else:
            more = ", ..." if len(which) > SHOWN_NAMES else ""
            yield f"{row}{len(which):>5}  {', '.join(name(i) for i in which[:SHOWN_NAMES])}{more}"


def _us(seconds: Fraction) -> str:
    return f"{float(seconds * 1_000_000):.4g} us"


def graph_document(look: Look) -> Iterator[str]:
    """The object ``topo show --json`` prints, line by line: the multigraph as nodes and edges, and what is shared.

    The links of a large cluster are millions: their lines are made one by one, and what they share once.
    """
    chunking, topology = look.chunking, look.chunking.topology
    shared = [
        {"name": c.name, "kind": c.kind, "capacity": c.chunks, "error": float(c.error)} for c in chunking.shared()
    ]

    def giga(rate: Fraction | None) -> float | None:
        return None if rate is None else float(rate / 10**9)

    facts, places = look.facts, ("rank", "name", "server", "host", "number", "model")
    head = {
        "cluster": topology.name,
        "ranks": topology.ranks,
        "chunk_bytes": chunking.chunk_bytes,
        "tau_ref_us": float(chunking.tau_ref * 1_000_000),
        "rounding": chunking.options.rounding,
        "gpus": [{name: getattr(g, name) for name in places} for g in facts.gpus],
        "servers": [
            {
                "name": s.name,
                "host": s.host,
                "ranks": [g.rank for g in s.gpus],
                "nic_gbytes_per_second": [giga(rate) for rate in s.nics],
            }
            for s in facts.servers
        ],
        "link_classes": [
            {
                "kind": c.kind,
                "inside_a_server": c.inside,
                "gbytes_per_second": giga(c.rate),
                "lanes": c.lanes,
                "latency_us": float(c.latency * 1_000_000),
                "count": c.count,
            }
            for c in facts.links
        ],
        "bottlenecks": [
            {
                "name": b.name,
                "kind": b.kind,
                "gbytes_per_second": giga(b.rate),
                "gpus": b.sharers,
                "offered_gbytes_per_second": giga(b.offered),
            }
            for b in facts.bottlenecks
        ],
        "capabilities": [{"name": c.name, "capabilities": list(c.capabilities)} for c in facts.capable],
    }
    yield json.dumps(head, indent=2).removesuffix("\n}") + ","
    links = topology.links
    alike: dict[tuple[int, str, int], str] = {}
    yield '  "links": [' + "]," * (not links)
    for index, (link, c) in enumerate(zip(links, chunking.links, strict=True)):
        key = (id(c), link.kind, link.lanes)
        if key not in alike:
            values = {
                "capacity": c.chunks,
                "kind": link.kind,
                "lanes": link.lanes,
                "tau": float(c.tau),
                "error": float(c.error),
            }
            alike[key] = "\n".join("    " + line for line in json.dumps(values, indent=2).splitlines()[1:])
        comma = "," if index + 1 < len(links) else ""
        yield (
            f'    {{\n      "src": {link.src},\n      "dst": {link.dst},\n      "link": {index},\n'
            f"{alike[key]}{comma}"
        )
    if links:
        yield "  ],"
    tail = {"shared": shared, "notes": list(topology.notes), "warnings": [d.plain() for d in look.warnings]}
    yield json.dumps(tail, indent=2).removeprefix("{\n")
