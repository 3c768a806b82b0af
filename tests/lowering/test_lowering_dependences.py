"""Which steps wait for which, on hand-made operations."""

from __future__ import annotations

from hetesynth.model.program import BufferSlice, Op
from hetesynth.programs.layout import Cell
from hetesynth.programs.msccl.channels import Message
from hetesynth.programs.msccl.dependences import (
    HappensBefore,
    RankBlocks,
    all_waits,
    conflicts_of,
    waits_without_local,
    written,
)
from hetesynth.programs.msccl.placement import Operation
from hetesynth.programs.msccl.thread_blocks import Block

A, B, C = (("o", i) for i in range(3))
Waits = list[list[tuple[str, tuple[int, int] | None, bool]]]


def op(kind: Op, reads: tuple[Cell, ...] = (), writes: tuple[Cell, ...] = ()) -> Operation:
    nowhere = BufferSlice("o", 0)
    return Operation(kind, nowhere, nowhere, 1, None, reads, writes)


def waits(operations: list[Operation], *blocks: list[int]) -> Waits:
    rank = RankBlocks(tuple(operations), [Block(None, None, 0, tuple(block)) for block in blocks])
    made = written(rank, waits_without_local(rank, all_waits(rank, conflicts_of(rank.operations))))
    assert [tb.id for tb in made] == list(range(len(blocks)))
    return [[(x.op, x.depends, x.has_dependents) for x in tb.instructions] for tb in made]


def test_read_after_write() -> None:
    found = waits([op("r", writes=(A,)), op("s", reads=(A,))], [0], [1])
    assert found == [[("r", None, True)], [("s", (0, 0), False)]]


def test_write_after_read_and_after_write() -> None:
    assert waits([op("s", reads=(A,)), op("r", writes=(A,))], [0], [1])[1] == [("r", (0, 0), False)]
    assert waits([op("r", writes=(A,)), op("r", writes=(A,))], [0], [1])[1] == [("r", (0, 0), False)]


def test_order_in_a_block_needs_no_dependence() -> None:
    assert waits([op("r", writes=(A,)), op("s", reads=(A,))], [0, 1]) == [[("r", None, False), ("s", None, False)]]


def test_two_readers_do_not_wait_for_each_other() -> None:
    assert waits([op("s", reads=(A,)), op("s", reads=(A,))], [0], [1]) == [[("s", None, False)]] * 2


def test_several_dependences_stand_on_nops_just_before() -> None:
    operations = [op("s", reads=(A,)), op("s", reads=(A,)), op("s", reads=(A,)), op("r", writes=(A,))]
    found = waits(operations, [0], [1], [2], [3])
    assert found[3] == [("nop", (0, 0), False), ("nop", (1, 0), False), ("r", (2, 0), False)]
    assert found[0] == [("s", None, True)]


def test_steps_are_counted_with_their_nops() -> None:
    operations = [op("s", reads=(A,)), op("s", reads=(A,)), op("r", writes=(A,)), op("s", reads=(A,))]
    found = waits(operations, [0], [1], [2], [3])
    assert found[2] == [("nop", (0, 0), False), ("r", (1, 0), True)]
    assert found[3] == [("s", (2, 1), False)]


def test_only_the_latest_step_of_a_block_is_named() -> None:
    operations = [op("r", writes=(A,)), op("r", writes=(B,)), op("s", reads=(A, B))]
    assert waits(operations, [0, 1], [2])[1] == [("s", (0, 1), False)]


def test_what_the_block_already_waited_for_is_dropped() -> None:
    operations = [op("r", writes=(A,)), op("r", writes=(B,)), op("s", reads=(B,)), op("s", reads=(A,))]
    assert waits(operations, [0, 1], [2, 3])[1] == [("s", (0, 1), False), ("s", None, False)]


def test_what_another_dependence_implies_is_dropped() -> None:
    """Block 2 reads A, which block 0 wrote, and B, which block 1 wrote after reading A."""
    operations = [op("r", writes=(A,)), op("cpy", reads=(A,), writes=(B,)), op("s", reads=(A, B))]
    assert waits(operations, [0], [1], [2])[2] == [("s", (1, 0), False)]


def test_additions_to_one_cell_follow_each_other() -> None:
    """HeteCCL eq. 8, in the program: two blocks never add to one cell at the same time."""
    operations = [op("re", reads=(A, C), writes=(C,)), op("re", reads=(B, C), writes=(C,))]
    assert waits(operations, [0], [1])[1] == [("re", (0, 0), False)]


def test_the_plain_lowering_names_every_conflict() -> None:
    """Block 2 reads what blocks 0 and 1 wrote, though the one of block 1 came after block 0's."""
    operations = [op("r", writes=(A,)), op("cpy", reads=(A,), writes=(B,)), op("s", reads=(A, B))]
    rank = RankBlocks(tuple(operations), [Block(None, None, 0, (i,)) for i in range(3)])
    assert all_waits(rank, conflicts_of(rank.operations)) == [(), (0,), (0, 1)]


def test_what_a_message_there_and_back_implies_is_dropped() -> None:
    """Rank 0 sends A away and gets a new A back from the one that received it: the write follows the read."""
    out, back = Message(0, 0, 1, 0, 0, 1, 0, (0,), False), Message(1, 1, 0, 0, 1, 2, 0, (0,), False)
    here = BufferSlice("o", 0)
    first = (
        Operation("s", here, here, 1, out, (A,), (), out.send_key),
        Operation("r", here, here, 1, back, (), (A,), back.receive_key),
    )
    second = (
        Operation("r", here, here, 1, out, (), (A,), out.receive_key),
        Operation("s", here, here, 1, back, (A,), (), back.send_key),
    )
    blocks = [Block(None, None, 0, (0,)), Block(None, None, 0, (1,))]
    ranks = [RankBlocks(first, blocks), RankBlocks(second, blocks)]
    waits = [waits_without_local(rank, all_waits(rank, conflicts_of(rank.operations))) for rank in ranks]
    assert waits == [[(), (0,)], [(), (0,)]]
    assert HappensBefore(ranks, waits).reduced(waits) == [[(), ()], [(), (0,)]]
