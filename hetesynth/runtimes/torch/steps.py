"""A table -> what one rank does, round by round. Knows no torch."""

from collections.abc import Iterator
from dataclasses import dataclass

from hetesynth.model.program import Buffer, BufferSlice
from hetesynth.model.table import Table
from hetesynth.model.topology import Rank

Place = tuple[int, int]
"""A buffer (0 input, 1 output, 2 scratch) and an offset in chunks."""
Move = tuple[bool, Rank, int, int, int]
"""Whether it is sent, the peer, buffer, offset, chunks."""
Pair = tuple[Place, Place, int]
"""A place that is written, one that is read, chunks."""
_NUMBER: dict[Buffer, int] = {"i": 0, "o": 1, "s": 2}


@dataclass(frozen=True, slots=True)
class Step:
    """A round of one rank: ``moves`` in the order of the table, then ``sums``."""

    number: int
    moves: tuple[Move, ...]
    sums: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a table that ``rank`` carries out. ``sizes``: chunks of its buffers."""

    rank: Rank
    sizes: tuple[int, int, int]
    copies: tuple[Pair, ...]
    steps: tuple[Step, ...]


def part_of(table: Table, rank: Rank) -> Part:
    """Return the part of ``table`` that ``rank`` carries out."""
    copies = [(_place(c.target), _place(c.source), c.count) for c in table.copies if c.rank == rank]
    steps: list[Step] = []
    for number, messages in enumerate(table.rounds):
        moves: list[Move] = []
        sums: list[Pair] = []
        for m in messages:
            if m.src == rank:
                moves.append((True, m.dst, *_place(m.source), m.count))
            if m.dst == rank:
                moves.append((False, m.src, *_place(m.landing), m.count))
                if m.added is not None:
                    sums.append((_place(m.added), _place(m.landing), m.count))
        if moves:
            steps.append(Step(number, tuple(moves), tuple(_joined(sums))))
    return Part(rank, table.sizes[rank], tuple(_joined(copies)), tuple(steps))


def _place(place: BufferSlice) -> Place:
    return _NUMBER[place.buffer], place.offset


def _joined(pairs: list[Pair]) -> Iterator[Pair]:
    """Yield the pairs, those that follow each other in both places joined to one."""
    last: Pair | None = None
    for target, source, count in pairs:
        if last is not None:
            (a, i), (b, j), n = last
            if (target, source) == ((a, i + n), (b, j + n)):
                last = last[0], last[1], n + count
                continue
            yield last
        last = target, source, count
    if last is not None:
        yield last
