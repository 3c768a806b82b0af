"""Memory of GPUs that write into each other, and races in it by happens-before.

In: accesses with what their maker knows. Out: values, and findings: undefined data, accesses to one cell, at
least one a write, that nothing orders, and accesses that reach a GPU before its kernel starts or after it may
have ended.

An actor is a thread block or the engine of a port channel. A clock has an entry for each actor, the last of its
segments (of its puts, for an engine) known to be complete, and one for each GPU, 1 when its kernel is known to
run. The operations of a thread block between two synchronizations of its threads are one segment, unordered
among themselves. As in FastTrack (Flanagan and Freund, PLDI 2009), a cell keeps its last write and the reads
since.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hetesynth.model.topology import Rank
from hetesynth.verify.msccl.layout import BROKEN, Value, named
from hetesynth.verify.mscclpp.checks import PlanFindings, PlanPlace
from hetesynth.verify.mscclpp.layout import PlanLayout

Clock = npt.NDArray[np.int32]
Part = tuple[int, int]
"""(operation of the thread block, position in its slice). Threads share out a slice by position, so that what two
slices of one operation do to a cell is ordered where their positions are the same, and only there."""
MANY: Part = (-1, -1)
"""In place of a part: several of the segment."""


@dataclass(slots=True)
class PlanAccess:
    """Who touches memory: ``actor`` at ``stamp``, issued by thread block ``block`` in ``segment``, knowing
    ``clock``. ``before``: of an engine, how many of its puts surely go before this one."""

    actor: int
    stamp: int
    block: int
    segment: int
    operation: int
    clock: Clock
    place: PlanPlace
    before: int = 0

    def knows(self, actor: int, stamp: int, part: Part, position: int) -> bool:
        """Whether an access stamped so happened before that to ``position``, or the same threads make both."""
        if actor == self.block:
            return stamp < self.segment or (actor == self.actor and part == (self.operation, position))
        return (actor == self.actor and stamp <= self.before) or bool(self.clock[actor] >= stamp)


@dataclass(slots=True)
class _Cell:
    writer: int = -1
    written: int = 0
    wrote: Part = MANY
    readers: dict[int, tuple[int, Part]] = field(default_factory=dict)


class PlanMemory:
    """The cells of one GPU; ``names`` says who an actor is, ``hints`` of some why it is not waited for."""

    def __init__(
        self, layout: PlanLayout, owner: Rank, findings: PlanFindings, names: list[str], hints: dict[int, str]
    ) -> None:
        self._layout = layout
        self._owner = owner
        self._findings = findings
        self._names = names
        self._hints = hints
        self._values: dict[int, Value] = {}
        self._cells: dict[int, _Cell] = {}
        self._raced: set[tuple[int, int]] = set()

    def value(self, cell: int) -> Value | None:
        """What the cell holds now; None: undefined."""
        held = self._values.get(cell)
        return held if held is not None else self._layout.initial(self._owner, cell)

    def read(self, access: PlanAccess, first: int, count: int, name: str) -> list[Value]:
        """The values of ``count`` cells; undefined ones are reported and come back BROKEN."""
        values: list[Value] = []
        for position in range(count):
            cell = first + position
            record = self._cells.get(cell)
            if record is None:
                record = self._cells[cell] = _Cell()
            elif record.writer >= 0 and not access.knows(record.writer, record.written, record.wrote, position):
                self._race(access, "reads", record.writer, "write", name, record.wrote)
            before = record.readers.get(access.actor)
            part = access.operation, position
            if before is not None and before[0] == access.stamp and before[1] != part:
                part = (access.operation, MANY[1]) if before[1][0] == access.operation else MANY
            record.readers[access.actor] = access.stamp, part
            value = self.value(cell)
            if value is None:
                self._findings.add(
                    "plan-undefined-data", f"reads {name}, of which nothing is written yet", access.place
                )
                value = self._values[cell] = BROKEN
            values.append(value)
        return values

    def write(self, access: PlanAccess, first: int, values: list[Value], name: str) -> None:
        """Puts the values into consecutive cells."""
        for position, value in enumerate(values):
            cell = first + position
            record = self._cells.get(cell)
            if record is None:
                record = self._cells[cell] = _Cell()
            if record.writer >= 0 and not access.knows(record.writer, record.written, record.wrote, position):
                self._race(access, "writes", record.writer, "write", name, record.wrote)
            for reader, (stamp, part) in record.readers.items():
                if not access.knows(reader, stamp, part, position):
                    self._race(access, "writes", reader, "read", name, part)
            record.writer, record.written = access.actor, access.stamp
            record.wrote = access.operation, position
            record.readers = {}
            self._values[cell] = value

    def _race(self, access: PlanAccess, does: str, other: int, did: str, name: str, part: Part) -> None:
        """One finding per pair of actors is enough."""
        pair = min(access.actor, other), max(access.actor, other)
        if pair in self._raced:
            return
        self._raced.add(pair)
        if other == access.actor == access.block and part[0] == access.operation:
            text = (
                f"{does} {name}, of which its other threads {did} parts: slices of an operation must not overlap"
            )
            self._findings.add("plan-missing-nop", text, access.place)
        elif other == access.actor:
            text = f"{does} {name}, which an operation before it {did}s: a nop must stand between them"
            self._findings.add("plan-missing-nop", text, access.place)
        else:
            text = f"{does} {name}, which {self._names[other]} {did}s: nothing orders the two"
            self._findings.add("plan-race", text + self._why(other), access.place)

    def _why(self, actor: int) -> str:
        return f" ({self._hints[actor]})" if actor in self._hints else ""

    def outlived(self, clock: Clock, own: range) -> None:
        """At the end of the GPU's kernel, whose thread blocks together know ``clock``: nothing may still come."""
        late: set[int] = set()
        for record in self._cells.values():
            if record.writer >= 0 and record.writer not in own and clock[record.writer] < record.written:
                late.add(record.writer)
            late |= {a for a, (stamp, _) in record.readers.items() if a not in own and clock[a] < stamp}
        for actor in sorted(late):
            text = (
                f"its kernel may end while {self._names[actor]} still uses its memory: no wait or flush covers it"
            )
            self._findings.add("plan-late-access", text + self._why(actor), PlanPlace(self._owner))


def added(a: list[Value], b: list[Value], findings: PlanFindings, place: PlanPlace) -> list[Value]:
    """Sums chunk by chunk. Different chunks, or a contribution that both sides hold, are reported."""
    total: list[Value] = []
    for x, y in zip(a, b, strict=True):
        if x == BROKEN or y == BROKEN:
            total.append(BROKEN)
        elif x[0] != y[0]:
            findings.add("plan-different-chunks", f"adds {named(x)} to {named(y)}: different chunks", place)
            total.append(BROKEN)
        elif x[1] & y[1]:
            twice = named((x[0], x[1] & y[1]))
            text = f"contribution added twice: both sides already hold {twice}"
            findings.add("plan-added-twice", text, place)
            total.append(BROKEN)
        else:
            total.append((x[0], x[1] | y[1]))
    return total
