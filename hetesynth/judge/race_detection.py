"""The memory of one GPU: symbolic values, and races by happens-before.

Reported is every read of undefined data, and every pair of actors with accesses to one cell, at least one a write,
that nothing orders.

An actor is what has an entry in the vector clocks: a thread block, or the engine of a port channel. As in
FastTrack (Flanagan and Freund, PLDI 2009) a cell keeps its last write and the reads since. The judges of
programs and of plans share this; what an actor knows they derive apart, since messages through FIFOs and signals
order different things.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, Literal, NamedTuple, Protocol, TypeVar

from hetesynth.judge.layout import BROKEN, Layout, Value, named
from hetesynth.model.topology import Rank

Part = tuple[int, int]
"""(operation of the actor, position in its slice). Where the threads of an actor share out a slice by position,
what two slices of one operation do to a cell is ordered where their positions are the same, and only there."""
MANY: Part = (-1, -1)
"""In place of a part: several, or it does not matter."""
Kind = Literal["read", "write"]


class Access(Protocol):
    """Who touches memory: ``actor`` in its ``operation``; ``stamp``: the actor's clock once the access is done."""

    @property
    def actor(self) -> int:
        """The entry of the vector clocks."""

    @property
    def stamp(self) -> int:
        """The value of that entry once the access is done."""

    @property
    def operation(self) -> int:
        """The actor's instruction or operation."""

    def knows(self, actor: int, stamp: int, part: Part, position: int) -> bool:
        """Whether an access stamped so happened before that to ``position``, or the same threads make both."""


class Conflict(NamedTuple):
    """An earlier access that nothing orders: ``actor``'s ``kind`` at ``stamp``."""

    actor: int
    stamp: int
    kind: Kind
    part: Part


@dataclass(slots=True)
class Cell:
    """The last write, one read since, and the reads of other actors since: by actor, the stamp and the part."""

    writer: int = -1
    written: int = 0
    wrote: Part = MANY
    reader: int = -1
    read: int = 0
    part: Part = MANY
    others: dict[int, tuple[int, Part]] | None = None

    def reads(self) -> Iterator[tuple[int, int, Part]]:
        """(actor, stamp, part) of the reads since the last write."""
        if self.reader >= 0:
            yield self.reader, self.read, self.part
        for actor, (stamp, part) in (self.others or {}).items():
            yield actor, stamp, part

    def add_read(self, actor: int, stamp: int, part: Part) -> None:
        """Remembers a read of ``actor``; of several in one stamp, that the parts are many."""
        first = self.reader in (-1, actor)
        others = self.others or {}
        before = (self.read, self.part) if first else others.get(actor, (-1, part))
        if before[0] == stamp and before[1] != part and (not first or self.reader == actor):
            part = (part[0], MANY[1]) if part[0] == before[1][0] else MANY
        if first:
            self.reader, self.read, self.part = actor, stamp, part
        else:
            others[actor] = stamp, part
            self.others = others


A = TypeVar("A", bound=Access)
S = TypeVar("S")


class Memory(ABC, Generic[A, S]):
    """The cells of ``rank``. Subclasses name a slice ``S`` and put reports in their words.

    ``BY_POSITION``: whether the threads of an actor share out slices by position, so that parts matter.
    """

    BY_POSITION: ClassVar[bool]

    def __init__(self, layout: Layout, rank: Rank) -> None:
        self._layout = layout
        self._rank = rank
        self._values: dict[int, Value] = {}
        self._cells: dict[int, Cell] = {}
        self._raced: set[tuple[int, int]] = set()

    def value(self, cell: int) -> Value | None:
        """What the cell holds now; None: undefined."""
        value = self._values.get(cell)
        return value if value is not None else self._layout.initial(self._rank, cell)

    def read(self, access: A, first: int, count: int, where: S) -> list[Value]:
        """The values of ``count`` cells from ``first``; undefined ones are reported and come back BROKEN."""
        values: list[Value] = []
        for position in range(count):
            cell = first + position
            record = self._cells.get(cell)
            if record is None:
                record = self._cells[cell] = Cell()
            elif record.writer >= 0 and not access.knows(record.writer, record.written, record.wrote, position):
                written = Conflict(record.writer, record.written, "write", record.wrote)
                self._race(access, "read", written, where, position)
            record.add_read(access.actor, access.stamp, (access.operation, position) if self.BY_POSITION else MANY)
            value = self.value(cell)
            if value is None:
                self._report(access, "read", None, where, position)
                value = self._values[cell] = BROKEN
            values.append(value)
        return values

    def write(self, access: A, first: int, values: Sequence[Value], where: S) -> None:
        """Puts the values into the cells from ``first``."""
        for position, value in enumerate(values):
            cell = first + position
            record = self._cells.get(cell)
            if record is None:
                record = self._cells[cell] = Cell()
            else:
                if record.writer >= 0 and not access.knows(record.writer, record.written, record.wrote, position):
                    written = Conflict(record.writer, record.written, "write", record.wrote)
                    self._race(access, "write", written, where, position)
                for reader, stamp, part in record.reads() if record.reader >= 0 else ():
                    if not access.knows(reader, stamp, part, position):
                        self._race(access, "write", Conflict(reader, stamp, "read", part), where, position)
                record.reader, record.others = -1, None
            record.writer, record.written = access.actor, access.stamp
            record.wrote = (access.operation, position) if self.BY_POSITION else MANY
            self._values[cell] = value

    def final_defect(self, *, spoilt: bool) -> str:
        """What is wrong with the output; empty: nothing. ``spoilt``: whether chunks that are wrong because of
        another finding count."""
        first, wrong, chunks = "", 0, self._layout.outputs[self._rank]
        for chunk in range(chunks):
            expected = self._layout.expected(self._rank, chunk)
            value = self.value(self._layout.cell(self._rank, self._rank, "o", chunk))
            if expected is not None and value != expected:
                wrong += spoilt or value != BROKEN
                if value != BROKEN:
                    first = first or f"o[{chunk}] ends with {named(value)}, not {named(expected)}"
        return first + (f" ({wrong} of its {chunks} output chunks are wrong)" if first and wrong > 1 else "")

    def _race(self, access: A, kind: Kind, other: Conflict, where: S, position: int) -> None:
        """One report per pair of actors is enough."""
        pair = (min(access.actor, other.actor), max(access.actor, other.actor))
        if pair not in self._raced:
            self._raced.add(pair)
            self._report(access, kind, other, where, position)

    @abstractmethod
    def _report(self, access: A, kind: Kind, other: Conflict | None, where: S, position: int) -> None:
        """``access`` of ``kind`` to ``position`` of ``where`` and ``other`` are not ordered; None: nothing has
        written what it reads."""
