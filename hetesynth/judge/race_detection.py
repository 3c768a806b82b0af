"""The memory of one GPU: symbolic values, and races by happens-before.

Reported is every read of undefined data, and every pair of actors with accesses to one cell, at least one a write,
that nothing orders.

An actor is what has an entry in the vector clocks: a thread block, or the engine of a port channel. As in
FastTrack (Flanagan and Freund, PLDI 2009) a cell keeps its last write and the reads since. What an actor knows the
judge of plans derives.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from hetesynth.judge.layout import BROKEN, Layout, Value, final_defect
from hetesynth.model.program import BufferSlice
from hetesynth.model.topology import Rank

Clock = npt.NDArray[np.integer[Any]]
Part = tuple[int, int]
"""(operation of the actor, position in its slice). Where the threads of an actor share out a slice by position,
what two slices of one operation do to a cell is ordered where their positions are the same, and only there."""
MANY: Part = (-1, -1)
"""In place of a part: several."""
Drawn = tuple[Rank, int, int, int, int]
"""A read: whose memory, which cell, the actor, its stamp and its operation."""
Kind = Literal["read", "write"]


class Access(NamedTuple):
    """An access to memory by ``actor`` in its ``operation``, done once its clock is at ``stamp``. ``block``: the
    thread block that makes it, whose knowledge ``clock`` is; what that did before ``segment`` is done. ``before``:
    how much of its own earlier work another ``actor`` than ``block`` has surely done. ``reads``: the clock of
    reads alone, where more of them are known to be done."""

    actor: int
    stamp: int
    operation: int
    clock: Clock
    block: int
    segment: int
    before: int = 0
    reads: Clock | None = None

    def knows(self, actor: int, stamp: int, part: Part, position: int, kind: Kind) -> bool:
        """Return True if an access with ``stamp`` happened before this to ``position``, or by the same threads."""
        if actor == self.block:
            return stamp < self.segment or (actor == self.actor and part == (self.operation, position))
        clock = self.clock if self.reads is None or kind == "write" else self.reads
        return (actor == self.actor and stamp <= self.before) or bool(clock.item(actor) >= stamp)


class Conflict(NamedTuple):
    """An earlier access that nothing orders: ``actor``'s ``kind`` at ``stamp``."""

    actor: int
    stamp: int
    kind: Kind
    part: Part


@dataclass(slots=True)
class Cell:
    """The last write to a cell, and the reads since: by actor, the stamp and the part."""

    writer: int = -1
    written: int = 0
    wrote: Part = MANY
    reads: dict[int, tuple[int, Part]] = field(default_factory=dict)

    def add_read(self, actor: int, stamp: int, part: Part) -> None:
        """Remember a read of ``actor``; where one stamp has several, their parts become ``MANY``."""
        before, parts = self.reads.get(actor, (-1, part))
        if before == stamp and parts != part:
            part = (part[0], MANY[1]) if part[0] == parts[0] else MANY
        self.reads[actor] = stamp, part


Report = Callable[[Access, Kind, "Conflict | None", BufferSlice, int], None]
"""(access, kind, other, where, position): ``access`` to the ``position``-th chunk of ``where`` and ``other`` are
not ordered; None: nothing has written what it reads."""


@dataclass(slots=True)
class Memory:
    """The memory of ``rank``, cell by cell; ``report`` hears of races and of undefined data."""

    layout: Layout
    rank: Rank
    report: Report
    _values: dict[int, Value] = field(default_factory=dict)
    _cells: dict[int, Cell] = field(default_factory=lambda: defaultdict(Cell))
    _raced: set[tuple[int, int]] = field(default_factory=set)

    def value(self, cell: int) -> Value | None:
        """Return the value that the cell holds now; None: undefined."""
        value = self._values.get(cell)
        return value if value is not None else self.layout.initial(self.rank, cell)

    def read(
        self, access: Access, first: int, count: int, where: BufferSlice, *, waited: bool = False
    ) -> list[Value]:
        """The values of ``count`` cells from ``first``; undefined ones are reported and come back BROKEN.
        ``waited``: the cells themselves say when they were written."""
        values: list[Value] = []
        for position in range(count):
            cell = first + position
            record = self._cells[cell]
            if record.writer >= 0 and not waited:
                self._after_write(access, "read", record, where, position)
            record.add_read(access.actor, access.stamp, (access.operation, position))
            value = self.value(cell)
            if value is None:
                self.report(access, "read", None, where, position)
                value = self._values[cell] = BROKEN
            values.append(value)
        return values

    def write(
        self,
        access: Access,
        first: int,
        values: Sequence[Value],
        where: BufferSlice,
        drawn: Sequence[Collection[Drawn]] = (),
    ) -> None:
        """Puts the values into the cells from ``first``. ``drawn``: for each position the reads from which its
        value came, which therefore are done."""
        for position, value in enumerate(values):
            cell = first + position
            record = self._cells[cell]
            if record.writer >= 0:
                self._after_write(access, "write", record, where, position)
            for reader, (stamp, part) in record.reads.items():
                if drawn and (self.rank, cell, reader, stamp, part[0]) in drawn[position]:
                    continue
                if not access.knows(reader, stamp, part, position, "read"):
                    self._race(access, "write", Conflict(reader, stamp, "read", part), where, position)
            record.reads.clear()
            record.writer, record.written = access.actor, access.stamp
            record.wrote = access.operation, position
            self._values[cell] = value

    def readers(self, cell: int) -> list[Drawn]:
        """Return the last read of each actor that has read the cell since it was written."""
        reads = self._cells[cell].reads.items()
        return [(self.rank, cell, actor, stamp, part[0]) for actor, (stamp, part) in reads]

    def outlived(self, clock: Clock, reads: Clock, own: Collection[int], packets: Collection[int]) -> list[int]:
        """Return the actors other than ``own`` that may touch this memory still: ``clock`` does not know that
        their writes are done, or ``reads`` that their reads are. Cells of ``packets`` do not count."""
        late: set[int] = set()
        for record in (record for cell, record in self._cells.items() if cell not in packets):
            if record.writer not in own and clock[record.writer] < record.written:  # 0 where nobody wrote
                late.add(record.writer)
            late |= {a for a, (stamp, _) in record.reads.items() if a not in own and reads[a] < stamp}
        return sorted(late)

    def final_defect(self) -> str:
        """Return what is wrong with the output; empty: nothing."""
        first = self.layout.cell(self.rank, self.rank, "o", 0)
        return final_defect(self.layout, self.rank, lambda chunk: self.value(first + chunk))

    def _after_write(self, access: Access, kind: Kind, record: Cell, where: BufferSlice, position: int) -> None:
        if not access.knows(record.writer, record.written, record.wrote, position, "write"):
            written = Conflict(record.writer, record.written, "write", record.wrote)
            self._race(access, kind, written, where, position)

    def _race(self, access: Access, kind: Kind, other: Conflict, where: BufferSlice, position: int) -> None:
        """Report a race, once for each pair of actors."""
        pair = (min(access.actor, other.actor), max(access.actor, other.actor))
        if pair not in self._raced:
            self._raced.add(pair)
            self.report(access, kind, other, where, position)
