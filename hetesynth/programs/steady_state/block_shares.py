"""Stations -> thread blocks: which of them does which, and which pairs of thread blocks share a channel.

In: the stations of a schedule, the server of each rank, an arrangement. Out: ``Blocks``. A station that goes on
has as many thread blocks as any other, so that connections that meet carry equally much; where a rank has more
stations than thread blocks, those with least to do share. What ends at a rank is waited for by a thread block that
puts to its sender, or by the one with the fewest channels. Knows no operations.

Thread blocks side by side copy faster, but their pieces are on the way at once, so the first is everywhere no
sooner. Thread blocks in shifts give more and smaller pieces. A shift puts when the one before has done so: else
a NIC that is slower than what feeds it would carry all shifts at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hetesynth.model.plan import MAX_CHANNELS
from hetesynth.model.topology import Rank
from hetesynth.programs.mscclpp.lower import RESIDENT_BLOCKS
from hetesynth.programs.steady_state.stations import Station, StationName


@dataclass(frozen=True, slots=True)
class PlanArrangement:
    """How the ``pieces`` of every chunk are shared out over the thread blocks of a tree.

    They work in ``shifts``, in each of which ``width`` of them are at work side by side.
    """

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


Place = tuple[Rank, int]
"""A thread block: (rank, number there)."""


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
    each: dict[Rank, int] = defaultdict(int)
    for a in stations:
        each[a.rank] += not a.ends
    return max(1, RESIDENT_BLOCKS // max(each.values(), default=1))


def heaviest(stations: Sequence[Station]) -> int:
    """About how many operations a piece takes of the thread block that has most to do."""
    work: dict[Rank, list[int]] = defaultdict(list)
    for a in stations:
        if not a.ends:
            work[a.rank].append(weight(a))
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
        else:
            of_station.update(_merged(own))
    return _Ends(stations, servers, Blocks(of_station, {})).placed()


def weight(a: Station) -> int:
    """About how many operations a piece takes."""
    return 2 * bool(a.senders) + bool(a.adds and a.senders) + 3 * bool(a.receivers)


def _merged(own: Sequence[Station]) -> dict[StationName, tuple[int, ...]]:
    """One thread block for each; those with the same peers, and with least to do, share."""
    groups: dict[tuple[tuple[Rank, ...], tuple[Rank, ...]], list[Station]] = defaultdict(list)
    for a in own:
        groups[a.senders, a.receivers].append(a)
    ordered = [a for key in sorted(groups) for a in groups[key]]
    ordered.sort(key=lambda a: -weight(a))  # stable: those with the same peers stay together
    most = -(-sum(map(weight, ordered)) // RESIDENT_BLOCKS)
    load = [0] * RESIDENT_BLOCKS
    peers: list[set[tuple[Rank, int]]] = [set() for _ in load]
    placed: dict[StationName, tuple[int, ...]] = {}
    for a in ordered:
        near = {(p, 0) for p in a.senders} | {(p, 1) for p in a.receivers}
        costs = [(max(load[b] + weight(a), most), len(near - peers[b]), load[b], b) for b in range(len(load))]
        block = min(costs)[-1]
        load[block] += weight(a)
        peers[block] |= near
        placed[a.name] = (block,)
    return placed


@dataclass
class _Ends:
    """Finds who waits for what ends at a rank.

    ``joined``: the thread blocks that each has a channel to. ``putting``: those of a rank that put to another.
    ``numbers``: how many thread blocks a rank has. ``channels``: of a thread block, inside its server or to
    others, those that it will need for what ends elsewhere included.
    """

    stations: Sequence[Station]
    servers: Sequence[str]
    blocks: Blocks
    joined: dict[Place, set[Place]] = field(default_factory=lambda: defaultdict(set))
    putting: dict[tuple[Rank, Rank], set[int]] = field(default_factory=lambda: defaultdict(set))
    numbers: dict[Rank, int] = field(default_factory=lambda: defaultdict(int))
    channels: dict[tuple[Place, bool], int] = field(default_factory=lambda: defaultdict(int))

    def placed(self) -> Blocks | None:
        """All thread blocks, or None where one has too many channels."""
        of_station, of_end = dict(self.blocks.of_station), dict(self.blocks.of_end)
        for (rank, _, _), blocks in of_station.items():
            self.numbers[rank] = max(self.numbers[rank], *(block + 1 for block in blocks))
        going_on = [a for a in self.stations if not a.ends]
        for a in going_on:
            for block in of_station[a.name]:
                for receiver in a.receivers:
                    self.putting[a.rank, receiver].add(block)
            for sender in a.senders:
                there = self.blocks.sending(sender, a.chunk, partial=a.adds)
                for block, far in zip(of_station[a.name], there, strict=True):
                    self._join((a.rank, block), (sender, far))
        ending = [
            (a, sender, self.blocks.sending(sender, a.chunk, partial=False))
            for a in self.stations if a.ends for sender in a.senders
        ]  # fmt: skip
        for a, sender, there in ending:
            for far in there:
                self.channels[(sender, far), self._near(a.rank, sender)] += 1  # until it is joined
        for a, sender, there in ending:
            of_end[sender, a.rank, a.chunk] = tuple(self._waiting(a.rank, (sender, far)) for far in there)
        if max(self.channels.values(), default=0) > MAX_CHANNELS:
            return None
        if max(self.numbers.values(), default=0) > RESIDENT_BLOCKS:
            return None
        return Blocks(of_station, of_end)

    def _join(self, one: Place, other: Place) -> None:
        if other in self.joined[one]:
            return
        near = self._near(one[0], other[0])
        for here, far in ((one, other), (other, one)):
            self.joined[here].add(far)
            self.channels[here, near] += 1

    def _near(self, one: Rank, other: Rank) -> bool:
        return self.servers[one] == self.servers[other]

    def _waiting(self, rank: Rank, sender: Place) -> int:
        """The thread block of ``rank`` that waits for ``sender``."""
        near = self._near(rank, sender[0])
        self.channels[sender, near] -= 1
        joined = [block for owner, block in self.joined[sender] if owner == rank]
        if joined:
            return min(joined)
        putting = self.putting[rank, sender[0]]
        channels = {b: self.channels[(rank, b), near] for b in range(self.numbers[rank])}
        open_blocks = [b for b, number in channels.items() if number < MAX_CHANNELS]
        block = min(open_blocks, key=lambda b: (b not in putting, channels[b], b), default=self.numbers[rank])
        self.numbers[rank] = max(self.numbers[rank], block + 1)
        self._join((rank, block), sender)
        return block
