"""A schedule along trees -> what each rank does with each chunk: wait for it, add it up, put it on.

In: a problem, a schedule in which every chunk takes a tree into a rank, a tree out of one, or both (a path is a
tree). Out: ``Station``s in the order of ticks, in which whoever sends comes before whoever receives. Knows no
thread blocks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from hetesynth.errors import HetesynthError
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.topology import Rank

StationName = tuple[Rank, int, bool]
"""(rank, chunk, whether it adds up)."""


@dataclass(frozen=True, slots=True)
class Station:
    """A value of ``chunk`` comes to ``rank`` or starts there, and goes on.

    ``adds``: what ``senders`` send is added to what the rank has from the start; without senders it is a leaf of
    a tree along which sums go. ``receivers`` get the value; ``partial``: they add it, else they keep it.
    """

    rank: Rank
    chunk: int
    adds: bool
    tick: int
    senders: tuple[Rank, ...]
    receivers: tuple[Rank, ...]
    partial: bool

    @property
    def name(self) -> StationName:
        """What tells it from others."""
        return self.rank, self.chunk, self.adds

    @property
    def ends(self) -> bool:
        """Whether nothing is done with what has come."""
        return not self.receivers and not self.adds


@dataclass(slots=True)
class _Visits:
    """The transfers of one chunk at one rank."""

    added: list[Transfer] = field(default_factory=list)
    copied: list[Transfer] = field(default_factory=list)
    sums: list[Transfer] = field(default_factory=list)
    copies: list[Transfer] = field(default_factory=list)


def stations(problem: Problem, schedule: Schedule) -> list[Station]:
    """Those of ``schedule``. Raises HetesynthError HS505 where its chunks do not take trees."""
    visits: dict[tuple[Rank, int], _Visits] = defaultdict(_Visits)
    for t in schedule.transfers:
        arc = problem.arcs[t.link]
        sent, received = visits[arc.src, t.chunk], visits[arc.dst, t.chunk]
        (sent.sums if t.reduce else sent.copies).append(t)
        (received.added if t.reduce else received.copied).append(t)
    listed = [a for (rank, chunk), v in visits.items() for a in _of_visits(problem, rank, chunk, v)]
    return sorted(listed, key=lambda a: (a.tick, a.chunk, a.rank, a.adds))


def _of_visits(problem: Problem, rank: Rank, chunk: int, v: _Visits) -> Iterator[Station]:
    if not _along_trees(v) or (not v.copied and rank not in problem.collective.pre[chunk]):
        raise HetesynthError(
            f"chunk {chunk} does not take a tree at rank {rank}: it has no plan in steady state",
            code="HS505", help="lower the schedule step by step",
        )  # fmt: skip
    arcs = problem.arcs
    senders, parents = (tuple(arcs[t.link].src for t in part) for part in (v.added, v.copied))
    sums, copies = (tuple(arcs[t.link].dst for t in part) for part in (v.sums, v.copies))
    if v.added or v.sums:
        tick = max([t.end for t in v.added] or [v.sums[0].start])
        on = (sums, True) if sums or v.copied else (copies, False)
        yield Station(rank, chunk, True, tick, senders, *on)
    if v.copied or not (v.added or v.sums):
        tick = v.copied[0].end if v.copied else min(t.start for t in v.copies)
        yield Station(rank, chunk, False, tick, parents, copies, False)


def _along_trees(v: _Visits) -> bool:
    """Whether one value at most is copied in and one sum sent out, sums after what they add, copies after all."""
    if len(v.copied) > 1 or len(v.sums) > 1:
        return False
    added = max((t.end for t in v.added), default=0)
    arrived = v.copied[0].end if v.copied else added
    if any(t.start < added for t in v.sums) or any(t.start < arrived for t in v.copies):
        return False
    return bool(v.sums) or not v.added if v.copied else not (v.sums and v.copies)
