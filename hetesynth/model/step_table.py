"""Instructions as rows of a table, its columns those of ``column``: large programs are read and judged so."""

from collections.abc import Collection, Iterator, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from hetesynth.model import column
from hetesynth.model.program import BUFFERS, OPS, BufferSlice, Instruction, Program

Table = NDArray[np.int64]


class Steps(Sequence[Instruction]):
    """The instructions of a thread block, each made from its row of a table when it is asked for."""

    __slots__ = ("rows",)

    def __init__(self, rows: Table) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, at: int) -> Instruction: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[Instruction, ...]: ...

    def __getitem__(self, at: int | slice) -> Instruction | tuple[Instruction, ...]:
        if isinstance(at, slice):
            return tuple(map(_instruction, self.rows[at].tolist()))
        return _instruction(self.rows[at].tolist())

    def __iter__(self) -> Iterator[Instruction]:
        return map(_instruction, self.rows.tolist())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Steps):
            return np.array_equal(self.rows, other.rows)
        return isinstance(other, tuple) and self[:] == other

    def __hash__(self) -> int:
        return hash(self[:])

    def __repr__(self) -> str:
        return repr(self[:])


def _instruction(row: Sequence[int]) -> Instruction:
    op, src_buffer, src, dst_buffer, dst, count, block, step, awaited = row
    source = None if src_buffer < 0 else BufferSlice(BUFFERS[src_buffer], src)
    target = None if dst_buffer < 0 else BufferSlice(BUFFERS[dst_buffer], dst)
    return Instruction(OPS[op], source, target, count, None if block < 0 else (block, step), awaited > 0)


def _row(x: Instruction) -> tuple[int, ...]:
    source = (-1, -1) if x.src is None else (BUFFERS.index(x.src.buffer), x.src.offset)
    target = (-1, -1) if x.dst is None else (BUFFERS.index(x.dst.buffer), x.dst.offset)
    return OPS.index(x.op), *source, *target, x.count, *(x.depends or (-1, -1)), x.has_dependents


def table_of(instructions: Sequence[Instruction]) -> Table:
    """Return a table with a row for each instruction, in the columns of ``column``."""
    if isinstance(instructions, Steps):
        return instructions.rows
    return np.array([_row(x) for x in instructions], dtype=np.int64).reshape(-1, column.AWAITED + 1)


def in_ops(rows: Table, ops: Collection[str]) -> NDArray[np.bool_]:
    """Return for each row True if its operation is one of ``ops``."""
    return np.array([op in ops for op in OPS])[rows[..., column.OP]]


def table_of_all(program: Program) -> tuple[Table, NDArray[np.int64]]:
    """Return a table of the instructions of all ``Program.blocks`` in order, and the row at which each block
    begins, with the number of rows at the end."""
    tables = [table_of(block.instructions) for _, block in program.blocks]
    first = np.concatenate(([0], np.cumsum([len(table) for table in tables]))).astype(np.int64)
    return np.concatenate([np.empty((0, column.AWAITED + 1), dtype=np.int64), *tables]), first
