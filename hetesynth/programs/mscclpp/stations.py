"""A schedule along trees -> what each rank does with each chunk, senders before receivers."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from hetesynth.errors import HetesynthError
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.timeline import Ints
from hetesynth.model.topology import Rank

StationName = tuple[Rank, int, bool]
"""(rank, chunk, whether it adds up)."""
Place = tuple[Rank, int]
"""A thread block: (rank, number there)."""
Put = tuple[StationName, Rank]
"""What is sent on, and to whom."""
Visit = tuple[StationName, Rank]
"""What has come, and from whom."""
Connection = tuple[Place, Place]
"""The thread block that puts, the one that waits."""


@dataclass(frozen=True, slots=True)
class Station:
    """A value of ``chunk`` comes to ``rank`` or starts there, and goes on. ``adds``: what ``senders`` send is
    added to what the rank has from the start; without senders it is a leaf of a tree along which sums go.
    ``receivers`` get the value; ``partial``: they add it, else they keep it. ``second``: another thread block
    waits for what is sent, and tells this one."""

    rank: Rank
    chunk: int
    adds: bool
    tick: int
    senders: tuple[Rank, ...]
    receivers: tuple[Rank, ...]
    partial: bool
    second: bool = False

    @property
    def name(self) -> StationName:
        """The key of the station: its rank, its chunk, and whether it adds."""
        return self.rank, self.chunk, self.adds

    @property
    def ends(self) -> bool:
        """True if nothing is done with what has come."""
        return not self.receivers and not self.adds


def stations(problem: Problem, schedule: Schedule) -> list[Station]:
    """Return the stations of ``schedule`` by tick. Raises HetesynthError HS505 if a chunk does not take a tree."""
    # the transfers of a chunk at a rank, by whether it receives, and adds
    visits: dict[tuple[Rank, int], dict[tuple[bool, bool], list[Transfer]]]
    visits = defaultdict(lambda: defaultdict(list))
    for t in schedule.transfers:
        arc = problem.arcs[t.link]
        visits[arc.src, t.chunk][False, t.reduce].append(t)
        visits[arc.dst, t.chunk][True, t.reduce].append(t)
    listed: list[Station] = []
    for (rank, chunk), v in visits.items():
        added, copied, summed, passed = v[True, True], v[True, False], v[False, True], v[False, False]
        # a tree: at most one value copied in and one sum sent out, sums after what they add, copies last
        complete = max((t.end for t in added), default=0)
        arrived = copied[0].end if copied else complete
        late = any(t.start < complete for t in summed) or any(t.start < arrived for t in passed)
        tree = bool(summed) or not added if copied else not (summed and passed)
        starts = copied or rank in problem.collective.pre[chunk]
        if max(len(copied), len(summed)) > 1 or late or not tree or not starts:
            raise HetesynthError(
                f"chunk {chunk} does not take a tree at rank {rank}: it has no plan in steady state",
                code="HS505",
                help="lower the schedule step by step",
            )
        senders, parents = (tuple(problem.arcs[t.link].src for t in part) for part in (added, copied))
        sums, copies = (tuple(problem.arcs[t.link].dst for t in part) for part in (summed, passed))
        if added or summed:
            on = (sums, True) if sums or copied else (copies, False)
            listed.append(Station(rank, chunk, True, complete if added else summed[0].start, senders, *on))
        if copied or not (added or summed):
            tick = copied[0].end if copied else min(t.start for t in passed)
            listed.append(Station(rank, chunk, False, tick, parents, copies, False))
    return sorted(listed, key=lambda a: (a.tick, a.chunk, a.rank, a.adds))


@dataclass(frozen=True, slots=True)
class Part:
    """The share of a ``station`` of one thread block: the ``transfers`` of one group of lanes, none where it just
    adds. ``ends``: receivers where they go no further. ``operations``: about how many a piece takes."""

    station: Station
    transfers: tuple[int, ...]
    ends: frozenset[Rank]
    operations: int


def parts_of(problem: Problem, schedule: Schedule, groups: Ints, servers: Sequence[str]) -> list[Part]:
    """Return the parts of all stations that go on. ``groups``: the group of lanes that sends each transfer."""
    listed = stations(problem, schedule)
    goes_on, ending = {a.name for a in listed}, {a.name for a in listed if a.ends}
    sent: dict[tuple[StationName, Rank], int] = {}
    for i, t in enumerate(schedule.transfers):
        arc = problem.arcs[t.link]
        name = (arc.src, t.chunk, t.reduce)
        sent[name if name in goes_on else (arc.src, t.chunk, True), arc.dst] = i
    parts: list[Part] = []
    for a in listed:
        of: dict[int, list[Rank]] = defaultdict(list)
        for r in a.receivers:
            of[int(groups[sent[a.name, r]])].append(r)
        for some in [] if a.ends else [*of.values()] or [[]]:
            ends = frozenset(r for r in some if (r, a.chunk, a.partial) in ending)
            part = replace(a, receivers=tuple(some))
            number = operations_of(part, servers, max(1, len(of)), ends)
            parts.append(Part(part, tuple(sent[a.name, r] for r in some), ends, number))
    return parts


def operations_of(a: Station, servers: Sequence[str], parts: int, ending: Collection[Rank]) -> int:
    """Return about how many operations a piece takes in one of ``parts`` of ``a``; it ends at ``ending``."""
    near = all(servers[r] == servers[a.rank] for r in a.receivers)
    waits = len({servers[s] == servers[a.rank] for s in a.senders})
    handed = bool(a.senders) and parts > 1
    adding = 0
    if a.adds and a.senders:  # ``res`` adds and puts
        adding = 1 if not a.receivers or (near and not handed) else 2
    further, here = any(r not in ending for r in a.receivers), bool(ending)
    puts = bool(a.receivers) * (adding != 1) + 2 * further if near else 1 + further + here
    return waits + bool(a.senders) + adding + handed + puts
