"""What changed between two topologies, in an operator's words: servers, GPUs, NICs, connections, rates, ranks.

Parts are the same where their names are. Either topology is put into words, fact by fact; what differs is told.
"""

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from hetesynth.model.topology import Topology, Wire

ChangeKind = Literal["added", "removed", "changed"]
_Facts = dict[tuple[str, tuple[str, ...]], tuple[str, ...]]  # (what, names of the parts) -> aspects in words
WORDS = {"gpu": "GPU", "nic": "NIC"}
PIPES = ("bus", "fabric")


@dataclass(frozen=True, slots=True)
class TopologyChange:
    """A difference between two topologies. ``what``: server, GPU, NIC, switch, link, group, rank, chunk, ...

    ``name``: the part, or the two ends of a connection. ``before`` and ``after`` are in words, "" where there
    was or is nothing to say.
    """

    kind: ChangeKind
    what: str
    name: str
    before: str = ""
    after: str = ""


def topology_changes(before: Topology, after: Topology) -> list[TopologyChange]:
    """Return every change from ``before`` to ``after``; none where hardware and ranks are the same.

    Facts of a part that only one topology has are not listed beside it, nor are the parts of such a server.
    """
    old, new = _facts(before), _facts(after)
    servers = set(before.servers) ^ set(after.servers) - {""}
    gone = {
        name for t in (before, after) for name, v in zip(_names(t), t.vertices, strict=True) if v.server in servers
    }
    unlike = set(_names(before)) ^ set(_names(after))
    changes: dict[tuple[str, tuple[str, ...]], TopologyChange] = {}
    for key in old | new:
        (what, parts), was, is_ = key, old.get(key), new.get(key)
        if was == is_ or not gone.isdisjoint(parts) or (unlike & {*parts} and (" of " in what or what == "link")):
            continue
        kind: ChangeKind = "added" if was is None else "removed" if is_ is None else "changed"
        words = [", ".join(filter(None, side or ())) for side in (was, is_)]
        if was is not None and is_ is not None and len(was) == len(is_):
            unequal = (pair for pair in zip(was, is_, strict=True) if pair[0] != pair[1])
            words = list(map(", ".join, zip(*unequal, strict=True)))
        change = TopologyChange(kind, what, " -> ".join(parts), *words)
        other = changes.get((what, parts[::-1])) if len(parts) == 2 else None
        if other is not None and [other.kind, other.before, other.after] == [kind, *words]:
            changes[what, parts[::-1]] = TopologyChange(kind, what, " <-> ".join(parts[::-1]), *words)
        else:
            changes[key] = change
    return list(changes.values())


def _facts(topology: Topology) -> _Facts:
    names = _names(topology)
    wires: dict[tuple[str, str], list[Wire]] = defaultdict(list)
    for wire in topology.wires:
        wires[names[wire.src], names[wire.dst]].append(wire)
    facts: _Facts = {("server", (server,)): () for server in topology.servers if server}
    for name, vertex in zip(names, topology.vertices, strict=True):
        what = WORDS.get(vertex.kind, vertex.kind)
        own = wires.pop((name, name), [])  # what a bus or fabric carries by itself
        if (what, (name,)) not in facts:
            limits = dict.fromkeys(_aspects(wire)[1:] for wire in own)  # its directions once where they are alike
            limit = "; ".join(", ".join(filter(None, aspects)) for aspects in limits)
            facts[what, (name,)] = (limit or "no limit",) if vertex.kind in PIPES else ()
        words = {"model": vertex.model, "server": vertex.server, "host": vertex.host}
        words["capabilities"] = ", ".join(vertex.capabilities)
        facts |= {(f"{field} of {what}", (name,)): (word or "none",) for field, word in words.items()}
    for ends, several in wires.items():
        told = sorted(map(_aspects, several))
        facts["link", ends] = told[0] if len(told) == 1 else ("; ".join(", ".join(filter(None, t)) for t in told),)
    for group in topology.groups:
        links = (topology.links[i] for i in group.links)
        pairs = sorted({f"{names[link.src]} -> {names[link.dst]}" for link in links})
        facts["group", (group.name,)] = (_rate(group.bandwidth, group.lanes), ", ".join(pairs))
    for rank, (name, rates) in enumerate(zip(names, topology.throughputs, strict=False)):
        facts["rank of GPU", (name,)] = (str(rank),)
        for what, rate in zip(("reduce", "copy"), rates, strict=True):
            facts[f"{what} of GPU", (name,)] = ("not stated" if rate is None else _rate(rate),)
    facts["chunk", ("",)] = ("not stated" if topology.chunk_bytes is None else f"{topology.chunk_bytes} B",)
    facts["measured", ("",)] = (", ".join(topology.measured) or "nothing",)
    return facts


def _names(topology: Topology) -> list[str]:
    """Return the name of the part of each vertex: ``ib`` for ``ib.in`` and ``ib.out``, the ends of a pipe."""
    names = [vertex.name for vertex in topology.vertices]
    for wire in topology.wires:
        src, dst = topology.vertices[wire.src], topology.vertices[wire.dst]
        name = src.name.removesuffix(".in")
        if src.kind in PIPES and (src.name, dst.name) == (f"{name}.in", f"{name}.out"):
            names[wire.src] = names[wire.dst] = name.removesuffix(".fwd").removesuffix(".rev")
    return names


def _aspects(wire: Wire) -> tuple[str, str, str]:
    """Return kind, rate and latency of a wire in words; no latency is empty."""
    return (
        wire.kind,
        _rate(wire.bandwidth, wire.lanes),
        f"{float(wire.latency * 1_000_000):.6g} us" if wire.latency else "",
    )


def _rate(bandwidth: Fraction | None, lanes: int = 1) -> str:
    words = "no limit" if bandwidth is None else f"{float(bandwidth) / 1e9:.6g} GB/s"
    return words + (f" x {lanes}" if lanes > 1 else "")
