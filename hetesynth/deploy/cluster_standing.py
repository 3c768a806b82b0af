"""A file made for one topology, on another: its verdict, its links found again, and what is slower for it.

In: two topologies and links of the first. Out: links of the second, and words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hetesynth.model.topology import Topology

NOT_OF_THE_FIRST = "it was made for other ranks or links than the first file has"
SHOWN = 3  # wires and links that a reason names

Verdict = Literal[
    "valid", "slower", "over capacity", "lost link", "other ranks", "not of the first", "wrong", "unreadable"
]


@dataclass(frozen=True, slots=True)
class Standing:
    """A schedule or program on the second topology. Only ``valid`` and ``slower`` still run."""

    path: Path
    verdict: Verdict
    reason: str = ""

    @property
    def runs(self) -> bool:
        """Whether it still delivers on the second topology within its capacities."""
        return self.verdict in ("valid", "slower")


def ranks_words(old: Topology, new: Topology) -> str:
    """How many ranks there were and are."""
    return f"it is for {old.ranks} ranks; there are {new.ranks} now"


def moved_rank(old: Topology, new: Topology) -> str:
    """Which rank is another GPU now, in words; empty where none is."""
    for rank in range(min(old.ranks, new.ranks)):
        was, is_ = old.vertices[rank].name, new.vertices[rank].name
        if was != is_:
            return f"rank {rank} is {is_} now, it was {was}"
    return ""


def matching_links(old: Topology, new: Topology, links: Iterable[int]) -> dict[int, int | None]:
    """The link of ``new`` for each of ``links``: over the same way, else the next of these two GPUs."""
    ways: dict[tuple[int, int], list[int]] = defaultdict(list)
    for j, link in enumerate(new.links):
        ways[link.src, link.dst].append(j)
    same: dict[int, int | None] = {}
    rest = []
    for i in links:
        candidates = ways[old.links[i].src, old.links[i].dst]
        way = _way(old, i)
        match = next((j for j in candidates if _way(new, j) == way), None)
        if match is None:
            rest.append(i)
        else:
            same[i] = match
            candidates.remove(match)
    for i in rest:
        candidates = ways[old.links[i].src, old.links[i].dst]
        same[i] = candidates.pop(0) if candidates else None
    return same


def _way(topology: Topology, link: int) -> tuple[str, ...]:
    return tuple(topology.vertices[topology.wires[w].dst].name for w in topology.links[link].wires)


def slower(old: Topology, new: Topology, links: Iterable[tuple[int, int]]) -> list[str]:
    """Wires that the schedule uses and that carry less than before, or links that take longer to begin with."""
    before, slow = {}, {}
    for i, j in links:
        for w in old.links[i].wires:
            before[old.wire_name(w)] = old.wires[w]
        for w in new.links[j].wires:
            name, wire = new.wire_name(w), new.wires[w]
            was = before.get(name)
            if was is None or name in slow or wire.bandwidth is None:
                continue
            rate = wire.bandwidth * wire.lanes
            if was.bandwidth is None or rate < was.bandwidth * was.lanes:
                limit = "no limit" if was.bandwidth is None else f"{float(was.bandwidth * was.lanes) / 1e9:.4g}"
                slow[name] = f"{name} {limit} -> {float(rate) / 1e9:.4g} GB/s"
        a, b = old.links[i], new.links[j]
        if _way(old, i) != _way(new, j) and (
            b.bandwidth * b.lanes < a.bandwidth * a.lanes or b.latency > a.latency
        ):
            slow[link_words(new, j)] = f"{link_words(new, j)} goes another, slower way"
    return list(slow.values())


def link_words(topology: Topology, link: int) -> str:
    """``a.gpu0 -> a.gpu1 (nvlink)``."""
    ends = topology.links[link]
    return f"{topology.vertices[ends.src].name} -> {topology.vertices[ends.dst].name} ({ends.kind})"


def named(words: Sequence[str]) -> str:
    """The first of ``words`` and how many more there are."""
    more = f"; and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
    return "; ".join(words[:SHOWN]) + more
