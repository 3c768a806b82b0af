"""Which ranks can pass data to which, over any number of links, and into what parts things fall."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import TypeVar

from hetesynth.model.topology import Rank, Topology

_Item = TypeVar("_Item")
_Member = TypeVar("_Member")


def unreachable_pairs(topology: Topology) -> tuple[tuple[Rank, Rank], ...]:
    """The pairs (u, v) such that no chain of links leads from u to v, in order; empty when all can talk."""
    forward = _neighbours(topology.ranks, ((link.src, link.dst) for link in topology.links))
    everyone = set(range(topology.ranks))
    if _reached(forward, 0) == everyone:
        backward = _neighbours(topology.ranks, ((link.dst, link.src) for link in topology.links))
        if _reached(backward, 0) == everyone:
            return ()
    return tuple((u, v) for u in range(topology.ranks) for v in sorted(everyone - _reached(forward, u)))


def separate_parts(topology: Topology) -> list[list[Rank]]:
    """The ranks by part, where no link of either direction joins two parts; one part when connected."""
    if len({link.dst for link in takewhile(lambda link: link.src == 0, topology.links)}) == topology.ranks - 1:
        return [list(range(topology.ranks))]
    ends = [(link.src, link.dst) for link in topology.links]
    around = _neighbours(topology.ranks, ends + [(v, u) for u, v in ends])
    parts: list[list[Rank]] = []
    seen: set[Rank] = set()
    for rank in range(topology.ranks):
        if rank not in seen:
            part = _reached(around, rank)
            seen |= part
            parts.append(sorted(part))
    return parts


def joined_sets(items: Iterable[_Item], members: Callable[[_Item], set[_Member]]) -> list[list[_Item]]:
    """``items`` in sets that have no member in common."""
    sets: list[tuple[set[_Member], list[_Item]]] = []
    for item in items:
        own = members(item)
        meeting = [entry for entry in sets if entry[0] & own]
        merged = [other for entry in meeting for other in entry[1]]
        sets = [entry for entry in sets if entry not in meeting]
        sets.append((own.union(*(entry[0] for entry in meeting)), [*merged, item]))
    return [together for _, together in sets]


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
