"""The memory of the GPUs: symbolic values, and races by happens-before.

In: accesses, each with the vector clock of the thread block that makes it. Out: values, and a finding for every
read of undefined data and every pair of accesses to one cell, at least one a write, that nothing orders.

A clock has one entry per thread block of the program: entry b is the number of b's instructions known to have
finished. An access stamped (b, k) happened before an access under clock c when c[b] >= k. As in FastTrack
(Flanagan and Freund, PLDI 2009) only the last write and the reads since are kept for each cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hetesynth.model.program import GpuProgram, Instruction
from hetesynth.verify.msccl.checks import RECEIVES, SENDS
from hetesynth.verify.msccl.findings import Findings, Place
from hetesynth.verify.msccl.layout import BROKEN, Layout, Value, named

Clock = npt.NDArray[np.unsignedinteger]


class Span(NamedTuple):
    """``size`` cells from ``first``, which the program calls ``buffer`` from ``offset``."""

    first: int
    size: int
    buffer: str
    offset: int


class Access(NamedTuple):
    """Who touches memory: thread block ``block`` at ``step``, in its ``stamp``-th message or other instruction,
    knowing ``clock``."""

    block: int
    stamp: int
    clock: Clock
    step: int

    def knows(self, block: int, stamp: int) -> bool:
        """Whether an access stamped so happened before."""
        return block == self.block or bool(self.clock[block] >= stamp)


@dataclass(slots=True)
class _Cell:
    """The last write, one read since, and the reads of other thread blocks since: (thread block, stamp)."""

    writer: int = -1
    written: int = 0
    reader: int = -1
    read: int = 0
    others: dict[int, int] | None = None


class Memory:
    """The cells of one GPU."""

    def __init__(
        self, layout: Layout, gpu: GpuProgram, findings: Findings, places: list[Place], split: int
    ) -> None:
        """``split``: the most chunks a message carries; 0: all of its instruction."""
        self._layout = layout
        self._gpu = gpu
        self._findings = findings
        self._places = places
        self._split = split
        self._values: dict[int, Value] = {}
        self._cells: dict[int, _Cell] = {}
        self._raced: set[tuple[int, int]] = set()

    def value(self, cell: int) -> Value | None:
        """What the cell holds now; None: undefined."""
        held = self._values.get(cell)
        return held if held is not None else self._layout.initial(self._gpu, cell)

    def read(self, access: Access, span: Span) -> list[Value]:
        """The values of the cells; undefined ones are reported and come back BROKEN."""
        values: list[Value] = []
        for cell in range(span.first, span.first + span.size):
            record = self._cells.get(cell)
            if record is None:
                record = self._cells[cell] = _Cell()
            elif record.writer >= 0 and not access.knows(record.writer, record.written):
                name = _cell_name(span, cell)
                self._race(access, "reads", record.writer, record.written, "writes", name)
            if record.reader in (-1, access.block):
                record.reader, record.read = access.block, access.stamp
            elif record.others is None:
                record.others = {access.block: access.stamp}
            else:
                record.others[access.block] = access.stamp
            value = self.value(cell)
            if value is None:
                text = f"reads {_cell_name(span, cell)}, which nothing has written yet"
                self._findings.add("undefined-data", text, self._place(access))
                value = self._values[cell] = BROKEN
            values.append(value)
        return values

    def write(self, access: Access, span: Span, values: list[Value]) -> None:
        """Puts the values into the first cells."""
        for cell, value in enumerate(values, span.first):
            record = self._cells.get(cell)
            if record is None:
                record = self._cells[cell] = _Cell()
            else:
                self._check_write(access, record, _cell_name(span, cell))
                record.reader, record.others = -1, None
            record.writer, record.written = access.block, access.stamp
            self._values[cell] = value

    def _check_write(self, access: Access, record: _Cell, name: str) -> None:
        if record.writer >= 0 and not access.knows(record.writer, record.written):
            self._race(access, "writes", record.writer, record.written, "writes", name)
        if record.reader >= 0 and not access.knows(record.reader, record.read):
            self._race(access, "writes", record.reader, record.read, "reads", name)
        for reader, stamp in (record.others or {}).items():
            if not access.knows(reader, stamp):
                self._race(access, "writes", reader, stamp, "reads", name)

    def _race(self, access: Access, does: str, other: int, stamp: int, did: str, name: str) -> None:
        """One finding per pair of thread blocks is enough."""
        pair = (min(access.block, other), max(access.block, other))
        if pair in self._raced:
            return
        self._raced.add(pair)
        place = self._places[other]
        block = self._findings.program.gpus[place.gpu].thread_blocks[place.block or 0]
        step = _step_of(block.instructions, stamp, self._split) if self._split else stamp - 1
        text = f"{does} {name} while thread block {block.id} step {step} {did} it"
        rule = "split-race" if self._split else "race"
        self._findings.add(rule, f"{text}: no dependence or message orders them", self._place(access))

    def _place(self, access: Access) -> Place:
        of = self._places[access.block]
        return Place(of.gpu, of.block, access.step)


def parts(x: Instruction, split: int) -> int:
    """How many messages the instruction has where one carries at most ``split`` chunks; 0: it is one."""
    return -(-x.count // split) if split and (x.op in SENDS or x.op in RECEIVES) else 1


def _step_of(instructions: tuple[Instruction, ...], stamp: int, split: int) -> int:
    """The step that the ``stamp``-th message belongs to."""
    for step, x in enumerate(instructions):
        stamp -= parts(x, split)
        if stamp <= 0:
            return step
    return len(instructions) - 1


def added(a: list[Value], b: list[Value], findings: Findings, place: Place) -> list[Value]:
    """Sums chunk by chunk. Different chunks, or a contribution that both sides hold, are reported."""
    total: list[Value] = []
    for x, y in zip(a, b, strict=True):
        if x == BROKEN or y == BROKEN:
            total.append(BROKEN)
        elif x[0] != y[0]:
            findings.add("different-chunks", f"adds {named(x)} to {named(y)}: different chunks", place)
            total.append(BROKEN)
        elif x[1] & y[1]:
            twice = named((x[0], x[1] & y[1]))
            findings.add("added-twice", f"contribution added twice: both sides already hold {twice}", place)
            total.append(BROKEN)
        else:
            total.append((x[0], x[1] | y[1]))
    return total


def _cell_name(span: Span, cell: int) -> str:
    return f"{span.buffer}[{span.offset + cell - span.first}]"
