"""Stations of a schedule, in the order of their dispatch -> thread blocks that carry them out, and their wiring.

A lane of the dispatch is a thread block until its operations are used up; the next one begins when it is done. Of
idle lanes the one whose thread block needs the fewest new channels takes the piece. What ends at a rank is waited
for by any of its thread blocks, at its end, and needs no signal of its own: the last put of the connection vouches
for it. What is added or passed on lands in scratch, with a place for each sender."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hetesynth.model.plan import MAX_CHANNELS
from hetesynth.model.problem import Problem
from hetesynth.model.program import BufferSlice
from hetesynth.model.schedule import Schedule
from hetesynth.model.timeline import Dispatch
from hetesynth.model.topology import Rank
from hetesynth.programs.layout import Layout
from hetesynth.programs.mscclpp.lower import RESIDENT_BLOCKS
from hetesynth.programs.mscclpp.stations import Connection, Place, Put, Station, StationName, Visit, parts_of


@dataclass(slots=True, eq=False)
class _Block:
    """A thread block. ``idle``: the seconds from which it is idle. ``left``: the operations it has room for.
    ``channels``: how many to other servers, and inside its own. ``closed``: another one goes on with its lane."""

    place: Place
    left: int
    idle: float = -1.0
    channels: list[int] = field(default_factory=lambda: [0, 0])
    joined: set[Place] = field(default_factory=set)
    closed: bool = False


@dataclass(frozen=True, eq=False)
class Placed:
    """Stations in thread blocks. ``sequences``: the stations of each. ``following``: the block that goes on with
    its lane. ``places``: the block that waits for what a station passes on; ``seconds``: others that put it.
    ``putting``: the block of each put. ``ends``: by block and rank where what it puts ends, the block there that
    waits."""

    sequences: dict[Place, list[Station]]
    following: dict[Place, Place]
    places: dict[StationName, Place]
    ends: dict[tuple[Place, Rank], Place]
    seconds: dict[StationName, list[Place]]
    putting: dict[Put, Place]


class Placing:
    """A way to share stations out. ``room``: operations of a thread block."""

    def __init__(
        self,
        problem: Problem,
        schedule: Schedule,
        dispatch: Dispatch,
        servers: Sequence[str],
        room: int,
        wide: bool,
    ) -> None:
        self.dispatch, self.servers, self.room, self.wide = dispatch, servers, room, wide
        self.parts = parts_of(problem, schedule, dispatch.lanes.of, servers)
        self.blocks: list[list[_Block]] = [[] for _ in range(problem.ranks)]
        self.known: dict[Place, _Block] = {}
        self.placed = Placed({}, {}, {}, {}, defaultdict(list), {})
        self.into: dict[StationName, list[int]] = defaultdict(list)
        for i, t in enumerate(schedule.transfers):
            self.into[problem.arcs[t.link].dst, t.chunk, t.reduce].append(i)

    def run(self) -> Placed | None:
        """Return the stations in thread blocks; None if there are too few thread blocks or channels."""
        pieces, lanes = self.dispatch.pieces, self.dispatch.lanes
        many = len(lanes.of)
        start, sent = (of.reshape(pieces, many) for of in (self.dispatch.start, self.dispatch.sent))
        parts = self.parts
        begins, idles = np.empty((2, len(parts), pieces))
        for i, part in enumerate(parts):
            out = list(part.transfers)
            begins[i] = start[:, out].min(axis=1) if out else sent[:, self.into[part.station.name]].max(axis=1)
            idles[i] = sent[:, out].max(axis=1) if out else begins[i]
        groups: dict[tuple[Rank, int], list[_Block]] = {}
        which = np.repeat(np.arange(len(parts)), pieces)
        for number in np.lexsort((np.tile(np.arange(pieces), len(parts)), which, begins.ravel())).tolist():
            i, piece = divmod(number, pieces)
            a, sends = parts[i].station, parts[i].transfers
            group = int(lanes.of[sends[0]]) if sends else -1 - i
            if (a.rank, group) not in groups:
                width = int(lanes.number[group]) // len(sends) if sends else 1
                groups[a.rank, group] = [_Block((a.rank, -1), 0)] * width
            chunk = a.chunk * pieces + piece
            named = replace(a, chunk=chunk, second=(a.rank, chunk, a.adds) in self.placed.places)
            times = begins[i, piece], idles[i, piece]
            if not self._put(named, groups[a.rank, group], *times, parts[i].ends, parts[i].operations):
                return None
        return self.placed

    def _put(
        self, a: Station, lanes: list[_Block], begin: float, idle: float, ends: frozenset[Rank], cost: int
    ) -> bool:
        placed = self.placed
        before = []
        for sender in () if a.second else a.senders:
            name = (sender, a.chunk, a.adds)
            before.append(placed.putting[name if name in placed.places else (sender, a.chunk, True), a.rank])
        free = [i for i, b in enumerate(lanes) if b.idle <= begin]
        if not free and self.wide and len(self.blocks[a.rank]) < RESIDENT_BLOCKS:
            lanes.append(_Block((a.rank, -1), 0))
            free = [len(lanes) - 1]
        free = free or [min(range(len(lanes)), key=lambda i: lanes[i].idle)]
        fitting = [i for i in free if self._fits(lanes[i], before, ends, cost)]
        block: _Block | None = None
        if fitting:
            block = lanes[min(fitting, key=lambda i: (self._new(lanes[i], before), lanes[i].left))]
        elif len(self.blocks[a.rank]) < RESIDENT_BLOCKS and self._can_connect(a.rank, before):
            i = max(free, key=lambda i: (lanes[i].place[1] >= 0, -lanes[i].left))
            old, block = lanes[i], self._opened(a.rank)
            if old.place[1] >= 0 and not old.closed:
                old.closed = True
                placed.following[old.place] = block.place
            lanes[i] = block
        else:  # any that can
            others = [b for b in self.blocks[a.rank] if not b.closed and self._fits(b, before, ends, cost)]
            block = min(others, key=lambda b: (max(b.idle, begin), self._new(b, before)), default=None)
        if block is None:
            return False
        block.left -= cost
        block.idle = max(block.idle, idle)
        placed.putting.update({(a.name, receiver): block.place for receiver in a.receivers})
        if a.second:
            placed.seconds[a.name].append(block.place)
        else:
            placed.places[a.name] = block.place
        placed.sequences[block.place].append(a)
        for place in before:
            self._join(block, self.known[place])
        for rank in sorted(ends):
            if (block.place, rank) not in placed.ends:
                there = self._waiting(block, rank)
                if there is None:
                    return False
                block.left -= 2
                placed.ends[block.place, rank] = there.place
                self._join(block, there)
        return True

    def _waiting(self, block: _Block, rank: Rank) -> _Block | None:
        """Return a thread block of ``rank`` to wait for what ``block`` puts there for good; None if none can."""
        own = self.blocks[rank] or [self._opened(rank)]
        near = self.servers[rank] == self.servers[block.place[0]]
        joined = [b for b in own if b.place in block.joined]
        some = joined or [b for b in own if b.channels[near] < MAX_CHANNELS - 2]
        if not some and len(own) < RESIDENT_BLOCKS:
            some = [self._opened(rank)]
        return min(some, key=lambda b: b.channels[near], default=None)

    def _opened(self, rank: Rank) -> _Block:
        block = _Block((rank, len(self.blocks[rank])), self.room)
        self.blocks[rank].append(block)
        self.known[block.place] = block
        self.placed.sequences[block.place] = []
        return block

    def _can_connect(self, rank: Rank, before: Sequence[Place]) -> bool:
        """Return True if another thread block of ``rank`` can have channels to ``before``."""
        return all(
            self.known[place].channels[self.servers[place[0]] == self.servers[rank]] < MAX_CHANNELS
            for place in before
        )

    def _new(self, block: _Block, before: Sequence[Place]) -> int:
        return sum(place not in block.joined for place in set(before))

    def _fits(self, block: _Block, before: Sequence[Place], ends: frozenset[Rank], cost: int) -> bool:
        if block.left < cost:
            return False
        more = [0, 0]
        for place in {*before} - block.joined:
            near = self.servers[place[0]] == self.servers[block.place[0]]
            more[near] += 1
            if self.known[place].channels[near] >= MAX_CHANNELS:
                return False
        for rank in ends:
            if (block.place, rank) not in self.placed.ends:
                more[self.servers[rank] == self.servers[block.place[0]]] += 1
        # three are left for those that what it puts goes to
        return all(n + m <= MAX_CHANNELS - 3 for n, m in zip(block.channels, more, strict=True))

    def _join(self, one: _Block, other: _Block) -> None:
        if other.place not in one.joined:
            near = self.servers[one.place[0]] == self.servers[other.place[0]]
            for here, far in ((one, other), (other, one)):
                here.joined.add(far.place)
                here.channels[near] += 1


class Wiring:
    """The wiring of thread blocks: where everything lands, who waits for whom, and which puts are signaled."""

    def __init__(self, listed: Sequence[Station], pieces: int, placed: Placed, layout: Layout) -> None:
        self.sequences = dict(sorted(placed.sequences.items()))
        self.following = dict(sorted(placed.following.items()))
        self.landings: dict[Visit, BufferSlice] = {}
        self.scratch = [0] * layout.collective.ranks
        for a in sorted(listed, key=lambda a: (a.rank, a.chunk, a.adds)):
            for piece in range(a.chunk * pieces, (a.chunk + 1) * pieces):
                for sender in a.senders:
                    home = None if a.adds else layout.target(a.rank, piece)
                    if home is None:
                        home = BufferSlice("s", self.scratch[a.rank])
                        self.scratch[a.rank] += 1
                    self.landings[(a.rank, piece, a.adds), sender] = home
        self.receiving: dict[Put, Place] = {}  # the thread block that waits for a put
        self.signalled: set[Put] = set()
        self.awaited: dict[Visit, tuple[Place, int]] = {}  # where from, and how many signals must have come
        self.signals: dict[Connection, int] = {}
        messages: dict[Connection, list[tuple[Put, Visit]]] = defaultdict(list)
        for place, sequence in self.sequences.items():
            for a in sequence:
                for receiver in a.receivers:
                    name = (receiver, a.chunk, a.partial)
                    far = placed.places[name] if name in placed.places else placed.ends[place, receiver]
                    self.receiving[a.name, receiver] = far
                    messages[place, far].append(((a.name, receiver), (name, a.rank)))
        # by semaphores: the thread block that follows a lane, and which of what is handed over comes when
        self.semaphores = {(*pair, True): 1 for pair in self.following.items()}
        self.handed: dict[tuple[StationName, Place], tuple[Place, int]] = {}
        self.seconds = placed.seconds
        for place, sequence in self.sequences.items():
            for a in sequence:
                for there in () if a.second or not a.senders else placed.seconds.get(a.name, ()):
                    key = (place, there, False)
                    self.semaphores[key] = self.semaphores.get(key, 0) + 1
                    self.handed[a.name, there] = place, self.semaphores[key]
        for connection, carried in messages.items():
            self.signals[connection] = 0
            for number, (put, visit) in enumerate(carried, 1):
                if visit[0] in placed.places or number == len(carried):  # nobody waits for what ends alone
                    self.signals[connection] += 1
                    self.signalled.add(put)
                    self.awaited[visit] = connection[0], self.signals[connection]
