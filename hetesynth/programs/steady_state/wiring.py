"""A schedule along trees -> what each rank does with each chunk, on which thread block, in which order.

``Station``s are in the order of ticks, senders before receivers. One that goes on has as many thread blocks as any
other; where a rank has more stations than thread blocks, those with least to do share. What ends is waited for by
a thread block that puts to its sender, or the one with the fewest channels, and needs no signal of its own: the
last put of the connection vouches for it. What is added or passed on lands in scratch, with a place for each
sender. A shift of thread blocks puts when the one before has done so, or a slow NIC would carry all shifts at
once."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hetesynth.errors import HetesynthError
from hetesynth.model.plan import MAX_CHANNELS
from hetesynth.model.problem import Problem
from hetesynth.model.program import BufferSlice
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.topology import Rank
from hetesynth.programs.layout import Layout
from hetesynth.programs.mscclpp.lower import RESIDENT_BLOCKS

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
    ``receivers`` get the value; ``partial``: they add it, else they keep it."""

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
        """True where nothing is done with what has come."""
        return not self.receivers and not self.adds

    @property
    def weight(self) -> int:
        """About how many operations a piece takes."""
        return 2 * bool(self.senders) + bool(self.adds and self.senders) + 3 * bool(self.receivers)


def stations(problem: Problem, schedule: Schedule) -> list[Station]:
    """Those of ``schedule``. Raises HetesynthError HS505 where its chunks do not take trees."""
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


# -- thread blocks


@dataclass(frozen=True, slots=True)
class PlanArrangement:
    """How the ``pieces`` of every chunk are shared out over the thread blocks of a tree. They work in ``shifts``,
    in each of which ``width`` of them are at work side by side."""

    pieces: int
    width: int
    shifts: int

    @property
    def blocks(self) -> int:
        """Thread blocks of a tree where it goes on."""
        return self.width * self.shifts

    def block(self, piece: int) -> int:
        """Which of them has ``piece``."""
        return piece * self.shifts // self.pieces * self.width + piece % self.width

    def following(self, block: int) -> int | None:
        """Whose shift comes after ``block``; None after the last."""
        return block + self.width if block + self.width < self.blocks else None


@dataclass(frozen=True)
class Blocks:
    """``of_station``: the thread blocks of what goes on. ``of_end``: of (sender, rank, chunk), those that wait for
    what ends at the rank, one for each of its sender."""

    of_station: Mapping[StationName, tuple[int, ...]]
    of_end: Mapping[tuple[Rank, Rank, int], tuple[int, ...]]

    def sending(self, rank: Rank, chunk: int, *, partial: bool) -> tuple[int, ...]:
        """The thread blocks that send ``chunk`` on at ``rank``, as a sum or a whole value."""
        name = (rank, chunk, partial)
        return self.of_station[name if name in self.of_station else (rank, chunk, True)]

    def receiving(self, sender: Rank, rank: Rank, chunk: int, *, partial: bool) -> tuple[int, ...]:
        """The thread blocks at ``rank`` that wait for what ``sender`` sends of ``chunk``."""
        end = self.of_end.get((sender, rank, chunk)) if not partial else None
        return self.of_station[rank, chunk, partial] if end is None else end


def widest(stations: Sequence[Station]) -> int:
    """The most thread blocks that each station can have."""
    each = Counter(a.rank for a in stations if not a.ends)
    return max(1, RESIDENT_BLOCKS // max(each.values(), default=1))


def heaviest(stations: Sequence[Station]) -> int:
    """About how many operations a piece takes of the thread block that has most to do."""
    work: dict[Rank, list[int]] = defaultdict(list)
    for a in stations:
        if not a.ends:
            work[a.rank].append(a.weight)
    return max((max(max(own), -(-sum(own) // RESIDENT_BLOCKS)) for own in work.values()), default=1)


def shared_out(stations: Sequence[Station], servers: Sequence[str], each: int) -> Blocks | None:
    """``each`` thread blocks for every station; None where there are not as many, or one would have too many
    channels."""
    if each > widest(stations):
        return None
    of_station: dict[StationName, tuple[int, ...]] = {}
    by_rank: dict[Rank, list[Station]] = defaultdict(list)
    for a in stations:
        if not a.ends:
            by_rank[a.rank].append(a)
    for rank in sorted(by_rank):
        own = by_rank[rank]
        if len(own) * each <= RESIDENT_BLOCKS:
            for i, a in enumerate(own):
                of_station[a.name] = tuple(range(i * each, (i + 1) * each))
            continue
        # one thread block for each; those with the same peers, and with least to do, share
        most = -(-sum(a.weight for a in own) // RESIDENT_BLOCKS)
        load = [0] * RESIDENT_BLOCKS
        peers: list[set[tuple[Rank, int]]] = [set() for _ in load]
        for a in sorted(own, key=lambda a: (-a.weight, a.senders, a.receivers)):
            near = {(p, 0) for p in a.senders} | {(p, 1) for p in a.receivers}
            costs = [(max(load[b] + a.weight, most), len(near - peers[b]), load[b], b) for b in range(len(load))]
            block = min(costs)[-1]
            load[block] += a.weight
            peers[block] |= near
            of_station[a.name] = (block,)
    return _with_ends(stations, servers, Blocks(of_station, {}))


def _with_ends(stations: Sequence[Station], servers: Sequence[str], blocks: Blocks) -> Blocks | None:
    """``blocks`` and those that wait for what ends at a rank; None where one has too many channels."""
    joined: dict[Place, set[Place]] = defaultdict(set)  # the thread blocks that each has a channel to
    putting: dict[tuple[Rank, Rank], set[int]] = defaultdict(set)  # those of a rank that put to another
    numbers: dict[Rank, int] = defaultdict(int)  # of thread blocks
    # of a thread block, inside its server or to others, with those that it will need for what ends elsewhere
    channels: dict[tuple[Place, bool], int] = defaultdict(int)

    def join(one: Place, other: Place) -> None:
        if other not in joined[one]:
            near = servers[one[0]] == servers[other[0]]
            for here, far in ((one, other), (other, one)):
                joined[here].add(far)
                channels[here, near] += 1

    for (rank, _, _), own in blocks.of_station.items():
        numbers[rank] = max(numbers[rank], *(block + 1 for block in own))
    ending: list[tuple[Station, Rank, tuple[int, ...]]] = []
    for a in stations:
        for sender in a.senders:
            there = blocks.sending(sender, a.chunk, partial=a.adds)
            if a.ends:
                ending.append((a, sender, there))
                continue
            for block, far in zip(blocks.of_station[a.name], there, strict=True):
                join((a.rank, block), (sender, far))
        for receiver in a.receivers:
            putting[a.rank, receiver].update(blocks.of_station[a.name])
    for a, sender, there in ending:
        for far in there:
            channels[(sender, far), servers[a.rank] == servers[sender]] += 1  # until it is joined
    of_end: dict[tuple[Rank, Rank, int], tuple[int, ...]] = {}
    for a, sender, there in ending:
        near, waiting = servers[a.rank] == servers[sender], []
        for place in ((sender, far) for far in there):
            channels[place, near] -= 1
            block = min((block for owner, block in joined[place] if owner == a.rank), default=-1)
            if block < 0:
                used = {b: channels[(a.rank, b), near] for b in range(numbers[a.rank])}
                open_blocks = [b for b, number in used.items() if number < MAX_CHANNELS]
                first = putting[a.rank, sender]
                block = min(open_blocks, key=lambda b: (b not in first, used[b], b), default=numbers[a.rank])
                numbers[a.rank] = max(numbers[a.rank], block + 1)
                join((a.rank, block), place)
            waiting.append(block)
        of_end[sender, a.rank, a.chunk] = tuple(waiting)
    crowded = (
        max(channels.values(), default=0) > MAX_CHANNELS or max(numbers.values(), default=0) > RESIDENT_BLOCKS
    )
    return None if crowded else Blocks(blocks.of_station, of_end)


# -- wiring


class Wiring:
    """How the thread blocks of ``stations``, of which chunk k is piece k mod ``pieces``, are wired up."""

    def __init__(
        self, stations: Sequence[Station], blocks: Blocks, arrangement: PlanArrangement, layout: Layout
    ) -> None:
        sequences: dict[Place, list[Station]] = defaultdict(list)
        following: dict[Place, Place] = {}
        for (_, rank, _), waiting in blocks.of_end.items():
            for block in waiting:
                sequences[rank, block] = []
        for a in stations:
            chunk, piece = divmod(a.chunk, arrangement.pieces)
            own = blocks.of_station[a.rank, chunk, a.adds] if not a.ends else ()
            if own:
                sequences[a.rank, own[arrangement.block(piece)]].append(a)
            for i, block in enumerate(own if a.receivers and arrangement.shifts > 1 else ()):
                after = arrangement.following(i)
                if after is not None:
                    following[a.rank, block] = a.rank, own[after]
        self.sequences = dict(sorted(sequences.items()))  # what each thread block does, in order
        self.following = dict(sorted(following.items()))  # the thread block whose shift is next
        self.landings: dict[Visit, BufferSlice] = {}
        self.scratch = [0] * layout.collective.ranks
        for a in sorted(stations, key=lambda a: (a.rank, a.chunk, a.adds)):
            for sender in a.senders:
                home = None if a.adds else layout.target(a.rank, a.chunk)
                if home is None:
                    home = BufferSlice("s", self.scratch[a.rank])
                    self.scratch[a.rank] += 1
                self.landings[a.name, sender] = home
        # which puts a signal follows, and for how many of them a value is waited for
        ending = {a.name for a in stations if a.ends}
        self.receiving: dict[Put, Place] = {}  # the thread block that waits for a put
        self.signalled: set[Put] = set()
        self.awaited: dict[Visit, tuple[Place, int]] = {}  # where from, and how many signals must have come
        self.signals: dict[Connection, int] = {}
        messages: dict[Connection, list[tuple[Put, Visit]]] = defaultdict(list)
        for place, sequence in self.sequences.items():
            for a in sequence:
                chunk, piece = divmod(a.chunk, arrangement.pieces)
                for receiver in a.receivers:
                    there = blocks.receiving(a.rank, receiver, chunk, partial=a.partial)
                    far = self.receiving[a.name, receiver] = (receiver, there[arrangement.block(piece)])
                    messages[place, far].append(((a.name, receiver), ((receiver, a.chunk, a.partial), a.rank)))
        for connection, carried in messages.items():
            self.signals[connection] = 0
            for number, (put, visit) in enumerate(carried, 1):
                if visit[0] not in ending or number == len(carried):  # nobody waits for what ends alone
                    self.signals[connection] += 1
                    self.signalled.add(put)
                    self.awaited[visit] = connection[0], self.signals[connection]
