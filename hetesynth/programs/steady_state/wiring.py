"""Pieces of stations on thread blocks -> the order of each, the signals between them, where values land.

In: the stations of all pieces in the order of ticks, their thread blocks, a layout. Out: ``Wiring``. The puts of
one thread block to another follow each other on one channel. What ends at a rank needs no signal of its own: the
last put of the connection vouches for it. What is to be added, and what a relay passes on, lands in scratch, with
a place for each sender, so nobody waits for a buffer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hetesynth.model.program import BufferSlice
from hetesynth.model.topology import Rank
from hetesynth.programs.layout import Layout
from hetesynth.programs.steady_state.block_shares import Blocks, Place, PlanArrangement
from hetesynth.programs.steady_state.stations import Station, StationName

Put = tuple[StationName, Rank]
"""What is sent on, and to whom."""
Visit = tuple[StationName, Rank]
"""What has come, and from whom."""
Connection = tuple[Place, Place]
"""The thread block that puts, the one that waits."""


@dataclass(frozen=True, slots=True)
class _Message:
    """One put on a connection. ``quiet``: nobody waits for it alone."""

    put: Put
    visit: Visit
    quiet: bool


@dataclass(frozen=True)
class Wiring:
    """``sequences``: what each thread block does, in order. ``receiving``: the thread block that waits for a put.
    ``signalled``: the puts that a signal follows.

    ``awaited``: the thread block that a value comes from, and how many of its signals must have come.
    ``signals``: all of a connection. ``landings``: where a value lands; ``scratch``: chunks of each rank.
    ``following``: the thread block whose shift comes after that of another.
    """

    sequences: Mapping[Place, Sequence[Station]]
    receiving: Mapping[Put, Place]
    signalled: frozenset[Put]
    awaited: Mapping[Visit, tuple[Place, int]]
    signals: Mapping[Connection, int]
    landings: Mapping[Visit, BufferSlice]
    scratch: Sequence[int]
    following: Mapping[Place, Place]


def wired(stations: Sequence[Station], blocks: Blocks, arrangement: PlanArrangement, layout: Layout) -> Wiring:
    """The wiring of ``stations``, of which chunk k is piece k mod ``pieces``."""
    sequences = _sequences(stations, blocks, arrangement)
    ending = {a.name for a in stations if a.ends}
    receiving: dict[Put, Place] = {}
    messages: dict[Connection, list[_Message]] = defaultdict(list)
    for place, sequence in sequences.items():
        for a in sequence:
            chunk, piece = divmod(a.chunk, arrangement.pieces)
            for receiver in a.receivers:
                there = blocks.receiving(a.rank, receiver, chunk, partial=a.partial)
                name = (receiver, a.chunk, a.partial)
                far = receiving[a.name, receiver] = (receiver, there[arrangement.block(piece)])
                messages[place, far].append(_Message((a.name, receiver), (name, a.rank), name in ending))
    signalled: set[Put] = set()
    awaited: dict[Visit, tuple[Place, int]] = {}
    signals: dict[Connection, int] = {}
    for connection, carried in messages.items():
        signals[connection] = 0
        for message in carried:
            if not message.quiet or message is carried[-1]:
                signals[connection] += 1
                signalled.add(message.put)
                awaited[message.visit] = connection[0], signals[connection]
    landings, scratch = _landings(stations, layout)
    following = _shifts(stations, blocks, arrangement)
    return Wiring(sequences, receiving, frozenset(signalled), awaited, signals, landings, scratch, following)


def _shifts(stations: Sequence[Station], blocks: Blocks, arrangement: PlanArrangement) -> dict[Place, Place]:
    """The thread blocks that put, and those whose shift is the next."""
    following: dict[Place, Place] = {}
    for a in stations:
        own = () if not a.receivers or arrangement.shifts == 1 else blocks.of_station[
            a.rank, a.chunk // arrangement.pieces, a.adds
        ]  # fmt: skip
        for i, block in enumerate(own):
            after = arrangement.following(i)
            if after is not None:
                following[a.rank, block] = a.rank, own[after]
    return dict(sorted(following.items()))


def _sequences(
    stations: Sequence[Station], blocks: Blocks, arrangement: PlanArrangement
) -> dict[Place, list[Station]]:  # fmt: skip
    sequences: dict[Place, list[Station]] = {}
    for (_, rank, _), waiting in blocks.of_end.items():
        for block in waiting:
            sequences.setdefault((rank, block), [])
    for a in stations:
        if not a.ends:
            chunk, piece = divmod(a.chunk, arrangement.pieces)
            own = blocks.of_station[a.rank, chunk, a.adds]
            sequences.setdefault((a.rank, own[arrangement.block(piece)]), []).append(a)
    return dict(sorted(sequences.items()))


def _landings(stations: Sequence[Station], layout: Layout) -> tuple[dict[Visit, BufferSlice], list[int]]:
    """Where everything lands, and how much scratch that takes."""
    landings: dict[Visit, BufferSlice] = {}
    scratch = [0] * layout.collective.ranks
    for a in sorted(stations, key=lambda a: (a.rank, a.chunk, a.adds)):
        for sender in a.senders:
            home = None if a.adds else layout.target(a.rank, a.chunk)
            if home is None:
                home = BufferSlice("s", scratch[a.rank])
                scratch[a.rank] += 1
            landings[a.name, sender] = home
    return landings, scratch
