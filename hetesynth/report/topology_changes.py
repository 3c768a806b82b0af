"""What changed between two topologies, in an operator's words: servers, GPUs, NICs, connections, rates, ranks.

Parts are the same where their names are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Set
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from hetesynth.model.topology import SharedGroup, Topology

ChangeKind = Literal["added", "removed", "changed"]
Rate = tuple[str, Fraction | None, int, Fraction]  # kind, bytes per second, lanes, seconds
Rates = tuple[Rate, ...]  # sorted
WORDS = {"gpu": "GPU", "nic": "NIC"}


@dataclass(frozen=True, slots=True)
class TopologyChange:
    """One thing that is different. ``what``: server, GPU, NIC, switch, link, group, rank, chunk, ...

    ``name``: the part, or the two ends of a connection. ``before`` and ``after`` are in words, "" where there
    was or is nothing to say.
    """

    kind: ChangeKind
    what: str
    name: str
    before: str = ""
    after: str = ""


def topology_changes(before: Topology, after: Topology) -> list[TopologyChange]:
    """Every change from ``before`` to ``after``; none where hardware and ranks are the same."""
    kinds = (_servers, _parts, _connections, _groups, _ranks)
    return [change for kind in kinds for change in kind(before, after)]


def rates_words(rates: Rates) -> str:
    """``50 GB/s, 1.3 us; 25 GB/s x 2``: connections side by side, each with its rate."""
    words = [(*_aspects(rate), rate[3]) for rate in rates]
    return "; ".join(
        f"{kind} {limit}" + (f", {latency}" if waits else "") for kind, limit, latency, waits in words
    )


def _servers(before: Topology, after: Topology) -> Iterator[TopologyChange]:
    old, new = (Counter(t.servers) for t in (before, after))
    models = {v.server: v.model or "GPU" for t in (after, before) for v in reversed(t.vertices[: t.ranks])}
    for name in old | new:
        if name and (name in old) != (name in new):
            words = f"{old[name] or new[name]} x {models[name]}"
            if name in old:
                yield TopologyChange("removed", "server", name, before=words)
            else:
                yield TopologyChange("added", "server", name, after=words)


def _parts(before: Topology, after: Topology) -> Iterator[TopologyChange]:
    """Parts of servers that both have, and of none."""
    old, new = (dict(zip(_names(t), t.vertices, strict=True)) for t in (before, after))
    unlike = (set(before.servers) ^ set(after.servers)) - {""}
    for name in old | new:
        a, b = old.get(name), new.get(name)
        vertex = a or new[name]
        what = WORDS.get(vertex.kind, vertex.kind)
        if a is None or b is None:
            if vertex.server not in unlike:
                yield TopologyChange("added" if a is None else "removed", what, name)
            continue
        for field in ("kind", "model", "server", "host", "capabilities"):
            was, is_ = (getattr(part, field) for part in (a, b))
            if field == "capabilities":
                was, is_ = ", ".join(was), ", ".join(is_)
            if was != is_:
                yield TopologyChange("changed", f"{field} of {what}", name, was or "none", is_ or "none")


def _connections(before: Topology, after: Topology) -> Iterator[TopologyChange]:
    """Connections between parts that both have; those of a part that is gone or new go with it."""
    kinds = dict(zip(_names(after), (v.kind for v in after.vertices), strict=True))
    names = set(_names(before)) & set(kinds)
    limited = names & (set(_pipes(before).values()) ^ set(_pipes(after).values()))
    old, new = _rates(before, limited), _rates(after, limited)
    told: set[tuple[str, str]] = set()
    for src, dst in old | new:
        pair, back = (src, dst), (dst, src)
        was, is_ = old.get(pair, ()), new.get(pair, ())
        if pair in told or was == is_ or src not in names or dst not in names:
            continue
        if src == dst:  # what a bus or fabric carries by itself; its two directions once where they are alike
            was, is_ = tuple(dict.fromkeys(was)), tuple(dict.fromkeys(is_))
            words = _different(was, is_)
            if not was or not is_:
                own, other = ("; ".join(_aspects(rate)[1] for rate in rates) or "no limit" for rates in (was, is_))
                words = own, other
            yield TopologyChange("changed", kinds[src], src, *words)
            continue
        words = _different(was, is_)
        both = words == _different(old.get(back, ()), new.get(back, ()))
        told |= {pair, back} if both else {pair}
        kind: ChangeKind = "added" if not was else "removed" if not is_ else "changed"
        yield TopologyChange(kind, "link", f"{src} {'<->' if both else '->'} {dst}", *words)


def _different(before: Rates, after: Rates) -> tuple[str, str]:
    """Both in words; of one wire that changed only what is different about it."""
    if before != after and (len(before) != 1 or len(after) != 1):
        return rates_words(before), rates_words(after)
    aspects = (_aspects(rates[0]) if rates else () for rates in (before, after))
    pairs = [pair for pair in zip(*aspects, strict=True) if pair[0] != pair[1]]
    return ", ".join(was for was, _ in pairs), ", ".join(is_ for _, is_ in pairs)


def _aspects(rate: Rate) -> tuple[str, str, str]:
    """Kind, rate and latency of a wire."""
    kind, bandwidth, lanes, latency = rate
    words = "no limit" if bandwidth is None else f"{float(bandwidth) / 1e9:.6g} GB/s"
    return kind, words + (f" x {lanes}" if lanes > 1 else ""), f"{float(latency * 1_000_000):.6g} us"


def _names(topology: Topology) -> list[str]:
    """The name of the part that each vertex belongs to: `ib` for `ib.in` and `ib.out`, the ends of a pipe."""
    pipes = _pipes(topology)
    return [pipes.get(number, vertex.name) for number, vertex in enumerate(topology.vertices)]


def _pipes(topology: Topology) -> dict[int, str]:
    """The ends of the pipes in buses and fabrics, with the name that the part has in a topology file."""
    ends: dict[int, str] = {}
    for wire in topology.wires:
        src, dst = topology.vertices[wire.src], topology.vertices[wire.dst]
        name = src.name.removesuffix(".in")
        pipe = (src.name, dst.name) == (f"{name}.in", f"{name}.out")
        if pipe and src.kind == dst.kind and src.kind in ("bus", "fabric"):
            ends[wire.src] = ends[wire.dst] = name.removesuffix(".fwd").removesuffix(".rev")
    return ends


def _rates(topology: Topology, limited: Set[str]) -> dict[tuple[str, str], Rates]:
    """By the names of the two ends: every wire from the one to the other.

    ``limited``: fabrics with a limit in one of two topologies; their latency is told of the wires that leave them.
    """
    names = _names(topology)
    inner = {names[w.src]: w.latency for w in topology.wires if names[w.src] == names[w.dst]}
    wires: dict[tuple[str, str], list[Rate]] = defaultdict(list)
    for wire in topology.wires:
        src, dst, latency = names[wire.src], names[wire.dst], wire.latency
        if src in limited and src in inner:
            latency = Fraction(0) if src == dst else wire.latency + inner[src]
        wires[src, dst].append((wire.kind, wire.bandwidth, wire.lanes, latency))
    return {
        ends: tuple(sorted(several, key=lambda rate: (rate[0], rate[1] or Fraction(0), *rate[2:])))
        for ends, several in wires.items()
    }


def _groups(before: Topology, after: Topology) -> Iterator[TopologyChange]:
    old, new = ({g.name: _group(t, g) for g in t.groups} for t in (before, after))
    for name in old | new:
        was, is_ = old.get(name), new.get(name)
        if was is None or is_ is None:
            kind: ChangeKind = "added" if was is None else "removed"
            yield TopologyChange(kind, "group", name, was[0] if was else "", is_[0] if is_ else "")
        elif was != is_:
            other = ", of other links" if was[0] == is_[0] else ""
            yield TopologyChange("changed", "group", name, was[0], is_[0] + other)


def _group(topology: Topology, group: SharedGroup) -> tuple[str, Fraction, frozenset[tuple[str, str]]]:
    """What the group carries, in words, with the rate that these round, and the ends of its links."""
    links = (topology.links[i] for i in group.links)
    ends = frozenset((topology.vertices[x.src].name, topology.vertices[x.dst].name) for x in links)
    lanes = f" x {group.lanes}" if group.lanes > 1 else ""
    return f"{float(group.bandwidth) / 1e9:.6g} GB/s{lanes} over {len(ends)} pairs", group.bandwidth, ends


def _ranks(before: Topology, after: Topology) -> Iterator[TopologyChange]:
    """Ranks and throughputs of reduction of the GPUs that both have; the chunk, and what is measured."""
    old, new = ({v.name: r for r, v in enumerate(t.vertices[: t.ranks])} for t in (before, after))
    both = [name for name in old if name in new]
    for name in both:
        if old[name] != new[name]:
            yield TopologyChange("changed", "rank of GPU", name, str(old[name]), str(new[name]))
    for name in both:
        pairs = zip(before.throughputs[old[name]], after.throughputs[new[name]], strict=True)
        for what, (was, is_) in zip(("reduce", "copy"), pairs, strict=True):
            if was != is_:
                words = ("not stated" if r is None else f"{float(r) / 1e9:.6g} GB/s" for r in (was, is_))
                yield TopologyChange("changed", f"{what} of GPU", name, *words)
    if before.chunk_bytes != after.chunk_bytes:
        sizes = ("not stated" if t.chunk_bytes is None else f"{t.chunk_bytes} B" for t in (before, after))
        yield TopologyChange("changed", "chunk", "", *sizes)
    if before.measured != after.measured:
        kinds = (", ".join(t.measured) or "nothing" for t in (before, after))
        yield TopologyChange("changed", "measured", "", *kinds)
