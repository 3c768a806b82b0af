"""Stations of a schedule, in the order of their dispatch -> thread blocks that carry them out, and their wiring.

A lane of the dispatch is a thread block until its operations are used up; the next one begins when it is done. Of
idle lanes the one whose thread block needs the fewest new channels takes the piece. What ends at a rank is waited
for by any of its thread blocks, at its end, and needs no signal of its own: the last put of the connection vouches
for it. What is added or passed on lands in scratch, with a place for each sender."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hetesynth.machine_code import rows, run_kernel
from hetesynth.model.plan import MAX_CHANNELS
from hetesynth.model.problem import Problem
from hetesynth.model.program import BufferSlice
from hetesynth.model.schedule import Schedule
from hetesynth.model.timeline import Dispatch, Ints
from hetesynth.model.topology import Rank
from hetesynth.programs.layout import Layout
from hetesynth.programs.mscclpp.lower import RESIDENT_BLOCKS
from hetesynth.programs.mscclpp.station_kernel import JOINS, Pieces, Shared, share
from hetesynth.programs.mscclpp.stations import Connection, Part, Place, Put, Station, StationName, Visit, parts_of


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


@dataclass(frozen=True, eq=False)
class Placing:
    """The pieces of ``parts`` in the order of time, ``piece[n]`` of part ``part[n]``, on the thread blocks of
    ``shared``."""

    parts: list[Part]
    pieces: int
    part: Ints
    piece: Ints
    shared: Shared

    def placed(self) -> Placed:
        """Return the stations in thread blocks."""
        s, placed = self.shared, Placed({}, {}, {}, {}, defaultdict(list), {})
        places = [(b // RESIDENT_BLOCKS, b % RESIDENT_BLOCKS) for b in range(len(s.left))]
        for rank, number in enumerate(s.opened.tolist()):
            placed.sequences.update({(rank, n): [] for n in range(number)})
        where = s.where.tolist()
        for i, piece in zip(self.part.tolist(), self.piece.tolist(), strict=True):
            place, a = places[where[i * self.pieces + piece]], self.parts[i].station
            a = replace(a, chunk=a.chunk * self.pieces + piece)
            if a.name in placed.places:
                a = replace(a, second=True)
                placed.seconds[a.name].append(place)
            else:
                placed.places[a.name] = place
            placed.putting.update({(a.name, receiver): place for receiver in a.receivers})
            placed.sequences[place].append(a)
        for b in np.flatnonzero(s.following >= 0).tolist():
            placed.following[places[b]] = places[s.following[b]]
        ranks = len(s.opened)
        for k in np.flatnonzero(s.waiting >= 0).tolist():
            placed.ends[places[k // ranks], k % ranks] = places[s.waiting[k]]
        return placed


def place_stations(
    problem: Problem, schedule: Schedule, dispatch: Dispatch, servers: Sequence[str], room: int, wide: bool
) -> Placing | None:
    """Return a way to share the stations of ``schedule`` out; None if there are too few thread blocks or channels.
    ``room``: operations of a thread block. ``wide``: a station may take more thread blocks than it has lanes."""
    pieces, many, ranks = dispatch.pieces, len(dispatch.lanes.of), problem.ranks
    parts = parts_of(problem, schedule, dispatch.lanes.of, servers)
    into: dict[StationName, list[int]] = defaultdict(list)
    for t, transfer in enumerate(schedule.transfers):
        into[problem.arcs[transfer.link].dst, transfer.chunk, transfer.reduce].append(t)
    start, sent = (of.reshape(pieces, many) for of in (dispatch.start, dispatch.sent))
    begins, idles = np.empty((2, len(parts), pieces))
    for i, part in enumerate(parts):
        out = list(part.transfers)
        begins[i] = start[:, out].min(axis=1) if out else sent[:, into[part.station.name]].max(axis=1)
        idles[i] = sent[:, out].max(axis=1) if out else begins[i]
    which, piece = np.divmod(np.arange(len(parts) * pieces), pieces)
    order = np.lexsort((piece, which, begins.ravel()))
    stations = {name: number for number, name in enumerate(dict.fromkeys(part.station.name for part in parts))}
    putting = {(part.station.name, r): i for i, part in enumerate(parts) for r in part.station.receivers}
    groups, widths = np.zeros(len(parts), dtype=np.int64), list[int]()
    numbers: dict[tuple[Rank, int], int] = {}
    before: list[list[int]] = []
    for i, part in enumerate(parts):
        a, sends = part.station, part.transfers
        group = int(dispatch.lanes.of[sends[0]]) if sends else -1 - i
        groups[i] = numbers.setdefault((a.rank, group), len(widths))
        if groups[i] == len(widths):
            widths.append(int(dispatch.lanes.number[group]) // len(sends) if sends else 1)
        names = ((sender, a.chunk, a.adds) for sender in a.senders)
        before.append([putting[name if name in stations else (*name[:2], True), a.rank] for name in names])
    (first_before, waited), (first_ends, ends) = rows(before), rows([sorted(part.ends) for part in parts])
    first_lane = np.concatenate(([0], np.cumsum(np.array(widths) + RESIDENT_BLOCKS)))
    c = Pieces(
        part=which[order],
        piece=piece[order],
        begin=begins.ravel()[order],
        idle=idles.ravel()[order],
        rank=np.array([part.station.rank for part in parts]),
        station=np.array([stations[part.station.name] for part in parts]),
        group=groups,
        cost=np.array([part.operations for part in parts]),
        first_before=first_before,
        before=waited,
        first_ends=first_ends,
        ends=ends,
        first_lane=first_lane,
        server=np.unique([*servers], return_inverse=True)[1],
        pieces=pieces,
        ranks=ranks,
        blocks=RESIDENT_BLOCKS,
        room=room,
        most=MAX_CHANNELS,
        wide=int(wide),
    )
    blocks = ranks * RESIDENT_BLOCKS

    def zeros(number: int) -> Ints:
        return np.zeros(number, dtype=np.int64)

    shared = Shared(
        left=zeros(blocks),
        idle=np.full(blocks, -1.0),
        closed=zeros(blocks),
        following=zeros(blocks) - 1,
        channels=zeros(2 * blocks),
        degree=zeros(blocks),
        joins=zeros(JOINS * blocks),
        waiting=zeros(blocks * ranks) - 1,
        opened=zeros(ranks),
        lanes=zeros(int(first_lane[-1])) - 1,
        number=np.array(widths),
        where=zeros(len(order)),
        seen=zeros(len(stations) * pieces),
    )
    if not run_kernel(share, c, shared, seconds=1e-4 * len(order)):
        return None
    return Placing(parts, pieces, c.part, c.piece, shared)


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
