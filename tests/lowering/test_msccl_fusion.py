"""An addition is fused into its receive only where nobody else reads what was received."""

from __future__ import annotations

import pytest

from hetesynth.model.program import BufferSlice, Op
from hetesynth.programs.layout import Cell
from hetesynth.programs.msccl.channels import Message
from hetesynth.programs.msccl.fusion import Traffic, fused
from hetesynth.programs.msccl.placement import Operation

RECEIVED = Message(0, src=1, dst=0, channel=0, start=0, end=1, wave=0, chunks=(0,), reduce=True)
SENT = Message(1, src=0, dst=2, channel=0, start=1, end=2, wave=0, chunks=(0,), reduce=False)
SCRATCH, OUT = BufferSlice("s", 0), BufferSlice("o", 0)


def operation(
    op: Op, src: BufferSlice, dst: BufferSlice, message: Message, reads: list[Cell], writes: list[Cell]
) -> Operation:
    return Operation(op, src, dst, 1, message, tuple(reads), tuple(writes), key=message.receive_key)


RECEIVE = operation("r", SCRATCH, SCRATCH, RECEIVED, [], [("s", 0)])
ADD = operation("re", SCRATCH, OUT, RECEIVED, [("s", 0), ("o", 0)], [("o", 0)])
READER = operation("s", SCRATCH, SCRATCH, SENT, [("s", 0)], [])
OTHER_READER = operation("s", OUT, OUT, SENT, [("o", 1)], [])
WRITER = operation("cpy", OUT, SCRATCH, SENT, [("o", 1)], [("s", 0)])


@pytest.mark.parametrize(
    ("operations", "fuses"),
    [
        ([RECEIVE, ADD], True),
        ([RECEIVE, ADD, OTHER_READER], True),
        ([RECEIVE, OTHER_READER, ADD], True),
        ([RECEIVE, ADD, WRITER, READER], True),
        ([RECEIVE, ADD, READER], False),
        ([RECEIVE, ADD, READER, WRITER], False),
        ([RECEIVE, READER, ADD], False),
    ],
)
def test_a_sum_replaces_what_was_received_only_where_no_other_reads_it(
    operations: list[Operation], fuses: bool
) -> None:
    result = fused(tuple(operations), {}, frozenset({"rrc"}), Traffic([RECEIVED, SENT], 8))
    assert ("rrc" in [op.op for op in result]) == fuses
    assert len(operations) - len(result) == fuses
