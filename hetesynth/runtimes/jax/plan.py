"""A table -> permutations of cells. Knows no jax.

All ranks have one array of cells, a chunk each: the buffers of a call (in place where the collective has such a
form), scratch, and behind it what ranks without a message in a permutation receive.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from hetesynth.model.program import BufferSlice
from hetesynth.model.table import Message, Table
from hetesynth.model.topology import Rank
from hetesynth.programs.tables.matchings import matchings


@dataclass(frozen=True, slots=True)
class Permutation:
    """``count`` cells sent from each rank to at most one other, or in a copy to itself (no ``pairs``). First cells
    by rank: ``source``, ``landing`` where they are kept, ``added`` where they are added; empty: on no rank."""

    pairs: tuple[tuple[Rank, Rank], ...]
    count: int
    source: tuple[int, ...]
    landing: tuple[int, ...]
    added: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a table. ``input``, ``output``: the first cell by rank, and how many. ``copies``: before the
    first round. A round is read whole before it is written."""

    table: Table
    cells: int
    input: tuple[tuple[int, ...], int]
    output: tuple[tuple[int, ...], int]
    copies: tuple[Permutation, ...]
    rounds: tuple[tuple[Permutation, ...], ...]

    @property
    def permutes(self) -> int:
        """The number of permutations that the devices carry out."""
        return sum(map(len, self.rounds))


class Cells:
    """The cells where chunks stand. In place the smaller buffer is the own block of the larger one."""

    def __init__(self, table: Table) -> None:
        every = range(table.ranks)
        self.inputs, self.outputs, scratch = (max(sizes[b] for sizes in table.sizes) for b in range(3))
        in_place = table.in_place
        both = max(self.inputs, self.outputs) if in_place else self.inputs + self.outputs
        own = min(self.inputs, self.outputs) if self.inputs != self.outputs else 0
        shifted = "i" if self.inputs < self.outputs else "o"
        self.first = {
            "i": tuple(rank * own if in_place and shifted == "i" else 0 for rank in every),
            "o": tuple((rank * own if shifted == "o" else 0) if in_place else self.inputs for rank in every),
            "s": (both,) * table.ranks,
        }
        self.trash = both + scratch

    def at(self, rank: Rank, place: BufferSlice) -> int:
        """Return the cell of ``place`` of ``rank``."""
        return self.first[place.buffer][rank] + place.offset


def plan_of(table: Table) -> Plan:
    """Return the plan of ``table``, a round having as few permutations as its messages of each count allow."""
    cells = Cells(table)
    copies: dict[tuple[int, int], list[Message]] = defaultdict(list)  # by place in the rank's order, and count
    numbers: dict[Rank, int] = defaultdict(int)
    for c in table.copies:
        if cells.at(c.rank, c.source) != cells.at(c.rank, c.target):
            copies[numbers[c.rank], c.count].append(Message(c.rank, c.rank, c.source, c.target, c.count))
            numbers[c.rank] += 1
    used = _used(table, cells)
    before = tuple(_permutation(copies[key], cells, table.ranks, used) for key in sorted(copies))
    rounds = tuple(
        tuple(_permutation(part, cells, table.ranks, used) for part in matchings(messages))
        for messages in table.rounds
    )
    trash = max((p.count for permutations in (before, *rounds) for p in permutations), default=0)
    ends = (cells.first["i"], cells.inputs), (cells.first["o"], cells.outputs)
    return Plan(table, cells.trash + trash, *ends, before, rounds)


def _used(table: Table, cells: Cells) -> set[tuple[Rank, int]]:
    """Return the cells that are sent, added to or given to the caller."""
    places = [(m.src, m.source, m.count) for messages in table.rounds for m in messages]
    places += [(m.dst, m.added, m.count) for messages in table.rounds for m in messages if m.added is not None]
    places += [(c.rank, c.source, c.count) for c in table.copies]
    places += [(rank, BufferSlice("o", 0), sizes[1]) for rank, sizes in enumerate(table.sizes) if sizes[1]]
    return {(rank, cells.at(rank, place) + j) for rank, place, count in places for j in range(count)}


def _permutation(
    messages: Iterable[Message], cells: Cells, ranks: int, used: set[tuple[Rank, int]]
) -> Permutation:
    source, landing, added = [0] * ranks, [cells.trash] * ranks, [cells.trash] * ranks
    pairs: list[tuple[Rank, Rank]] = []
    count = 0
    for m in messages:
        count = m.count
        pairs += [(m.src, m.dst)] if m.src != m.dst else []
        source[m.src] = cells.at(m.src, m.source)
        to = cells.at(m.dst, m.landing)
        if m.added is not None:
            added[m.dst] = cells.at(m.dst, m.added)
        if m.added is None or any((m.dst, to + j) in used for j in range(count)):
            landing[m.dst] = to
    kept = [tuple(side) if set(side) != {cells.trash} else () for side in (landing, added)]
    return Permutation(tuple(pairs), count, tuple(source), *kept)
