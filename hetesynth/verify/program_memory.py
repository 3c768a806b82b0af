"""The memory of the GPUs: symbolic values, and races by happens-before.

In: accesses, each with the vector clock of the thread block that makes it. Out: values, and a finding for every
read of undefined data and every pair of accesses to one cell, at least one a write, that nothing orders.

A clock has one entry per thread block of the program: entry b is the number of b's instructions known to have
finished. An access stamped (b, k) happened before an access under clock c when c[b] >= k. As in FastTrack
(Flanagan and Freund, PLDI 2009) only the last write and the reads since are kept for each cell.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hetesynth.model.program import GpuProgram
from hetesynth.verify.program_findings import Findings, Place
from hetesynth.verify.program_layout import BROKEN, Layout, Value, named

Clock = npt.NDArray[np.int16] | npt.NDArray[np.int32]


@dataclass(slots=True)
class Access:
    """Who touches memory: thread block ``block`` in its ``stamp``-th instruction, knowing ``clock``."""

    block: int
    stamp: int
    clock: Clock
    place: Place

    def knows(self, block: int, stamp: int) -> bool:
        """Whether an access stamped so happened before."""
        return block == self.block or bool(self.clock[block] >= stamp)


@dataclass(slots=True)
class _Cell:
    writer: int = -1
    written: int = 0
    readers: dict[int, int] = field(default_factory=dict)


class Memory:
    """The cells of one GPU."""

    def __init__(
        self,
        layout: Layout,
        gpu: GpuProgram,
        findings: Findings,
        places: list[Place],
        steps: list[list[int]] | None,
    ) -> None:
        """``steps``: by thread block, the step of each message, where steps are split into messages."""
        self._layout = layout
        self._gpu = gpu
        self._findings = findings
        self._places = places
        self._steps = steps
        self._values: dict[int, Value] = {}
        self._cells: dict[int, _Cell] = {}
        self._raced: set[tuple[int, int]] = set()

    def value(self, cell: int) -> Value | None:
        """What the cell holds now; None: undefined."""
        held = self._values.get(cell)
        return held if held is not None else self._layout.initial(self._gpu, cell)

    def read(self, access: Access, first: int, count: int, name: str) -> list[Value]:
        """The values of ``count`` cells; undefined ones are reported and come back BROKEN."""
        values: list[Value] = []
        for cell in range(first, first + count):
            record = self._cells.get(cell)
            if record is None:
                record = self._cells[cell] = _Cell()
            elif record.writer >= 0 and not access.knows(record.writer, record.written):
                self._race(
                    access, "reads", record.writer, record.written, "writes", _cell_name(name, cell - first)
                )
            record.readers[access.block] = access.stamp
            value = self.value(cell)
            if value is None:
                text = f"reads {_cell_name(name, cell - first)}, which nothing has written yet"
                self._findings.add("undefined-data", text, access.place)
                value = self._values[cell] = BROKEN
            values.append(value)
        return values

    def write(self, access: Access, first: int, values: list[Value], name: str) -> None:
        """Puts the values into consecutive cells."""
        for index, value in enumerate(values):
            cell = first + index
            record = self._cells.get(cell)
            if record is None:
                record = self._cells[cell] = _Cell()
            else:
                self._check_write(access, record, _cell_name(name, index))
            record.writer, record.written = access.block, access.stamp
            if record.readers:
                record.readers = {}
            self._values[cell] = value

    def _check_write(self, access: Access, record: _Cell, name: str) -> None:
        if record.writer >= 0 and not access.knows(record.writer, record.written):
            self._race(access, "writes", record.writer, record.written, "writes", name)
        for reader, stamp in record.readers.items():
            if not access.knows(reader, stamp):
                self._race(access, "writes", reader, stamp, "reads", name)

    def _race(self, access: Access, does: str, other: int, stamp: int, did: str, name: str) -> None:
        """One finding per pair of thread blocks is enough."""
        pair = (min(access.block, other), max(access.block, other))
        if pair in self._raced:
            return
        self._raced.add(pair)
        place = self._places[other]
        blocks = self._findings.program.gpus[place.gpu].thread_blocks
        step = stamp - 1 if self._steps is None else self._steps[other][stamp - 1]
        text = f"{does} {name} while thread block {blocks[place.block or 0].id} step {step} {did} it"
        rule = "race" if self._steps is None else "split-race"
        self._findings.add(rule, f"{text}: no dependence or message orders them", access.place)


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


def _cell_name(name: str, index: int) -> str:
    """``name`` is the buffer and first offset, as in ``o:3``."""
    buffer, _, offset = name.partition(":")
    return f"{buffer}[{int(offset) + index}]"
