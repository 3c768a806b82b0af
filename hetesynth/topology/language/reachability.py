"""Which ranks can pass data to which, over any number of links, and into what parts the GPUs fall."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from hetesynth.model.topology import Rank, Topology


def unreachable_pairs(topology: Topology) -> tuple[tuple[Rank, Rank], ...]:
    """The pairs (u, v) such that no chain of links leads from u to v, in order; empty when all can talk."""
    ends = [(link.src, link.dst) for link in topology.links]
    forward, backward = (_neighbours(topology.ranks, way) for way in (ends, [(v, u) for u, v in ends]))
    everyone = set(range(topology.ranks))
    if _reached(forward, 0) == _reached(backward, 0) == everyone:
        return ()
    return tuple((u, v) for u in range(topology.ranks) for v in sorted(everyone - _reached(forward, u)))


def separate_parts(topology: Topology) -> list[list[Rank]]:
    """The ranks by part, where no link of either direction joins two parts; one part when connected."""
    if len({link.dst for link in takewhile(lambda link: link.src == 0, topology.links)}) == topology.ranks - 1:
        return [list(range(topology.ranks))]
    ends = [(link.src, link.dst) for link in topology.links]
    around = _neighbours(topology.ranks, ends + [(v, u) for u, v in ends])
    parts: dict[Rank, list[Rank]] = {}
    for rank in range(topology.ranks):
        part = _reached(around, rank) if not any(rank in part for part in parts.values()) else set()
        parts |= {min(part): sorted(part)} if part else {}
    return list(parts.values())


def _neighbours(ranks: int, ends: Iterable[tuple[Rank, Rank]]) -> list[set[Rank]]:
    table: list[set[Rank]] = [set() for _ in range(ranks)]
    for src, dst in ends:
        table[src].add(dst)
    return table


def _reached(neighbours: list[set[Rank]], start: Rank) -> set[Rank]:
    """The ranks reachable from ``start``, itself included."""
    seen = {start}
    todo = [start]
    while todo:
        new = neighbours[todo.pop()] - seen
        seen |= new
        todo.extend(new)
    return seen
