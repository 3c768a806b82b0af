"""Thread blocks of a rank -> instructions with dependences.

In: the operations of one rank in the one order, and its thread blocks. Out: ``ThreadBlock``s whose ``depends``
make every execution equal to that order on every cell: a read waits for the last write (RAW), a write for the
last write and all reads since (WAW, WAR). So additions to one cell never run at the same time (HeteCCL eq. 8).
Knows nothing of the schedule.

Order within a thread block is implicit. What an earlier dependence of the thread block, or another dependence
of the same step, already implies is dropped (a vector clock per step). Of several that remain, all but the
last stand on nops just before the step. A step that something waits for is marked; no other is.
"""

from __future__ import annotations

from collections import defaultdict

from hetesynth.emitter.layout import Cell
from hetesynth.emitter.placement import Operation
from hetesynth.emitter.thread_blocks import Block
from hetesynth.model.program import Instruction, ThreadBlock

_Position = tuple[int, int]  # (thread block, operation within it)
_Clock = dict[int, int]  # thread block -> how many of its operations are known to be finished


def with_dependences(operations: tuple[Operation, ...], blocks: list[Block]) -> tuple[ThreadBlock, ...]:
    """The thread blocks, numbered in the order given."""
    position: dict[int, _Position] = {}
    for b, block in enumerate(blocks):
        for n, i in enumerate(block.operations):
            position[i] = (b, n)
    needed = _needed(operations, position)
    return _written(operations, blocks, position, needed)


def _hazards(operations: tuple[Operation, ...]) -> list[set[int]]:
    """For each operation, the earlier ones it conflicts with directly on some cell."""
    wrote: dict[Cell, int] = {}
    read: dict[Cell, list[int]] = defaultdict(list)
    found: list[set[int]] = []
    for i, op in enumerate(operations):
        before = {wrote[cell] for cell in (*op.reads, *op.writes) if cell in wrote}
        for cell in op.writes:
            before.update(read.pop(cell, ()))
            wrote[cell] = i
        for cell in op.reads:
            read[cell].append(i)
        before.discard(i)
        found.append(before)
    return found


def _needed(operations: tuple[Operation, ...], position: dict[int, _Position]) -> list[list[int]]:
    """For each operation, the operations of other thread blocks it must name, the latest last."""
    clocks: list[_Clock] = []
    last_in_block: dict[int, int] = {}
    needed: list[list[int]] = []
    for i, before in enumerate(_hazards(operations)):
        block, number = position[i]
        clock: _Clock = dict(clocks[last_in_block[block]]) if block in last_in_block else {}
        named: list[int] = []
        for j in sorted(before, reverse=True):
            other, theirs = position[j]
            if other == block or clock.get(other, 0) > theirs:
                continue
            named.append(j)
            for b, finished in clocks[j].items():
                clock[b] = max(clock.get(b, 0), finished)
        clock[block] = number + 1
        clocks.append(clock)
        last_in_block[block] = i
        needed.append(named[::-1])
    return needed


def _written(
    operations: tuple[Operation, ...],
    blocks: list[Block],
    position: dict[int, _Position],
    needed: list[list[int]],
) -> tuple[ThreadBlock, ...]:
    """The instructions with nops in place, so that steps can be named by their number."""
    step: dict[int, int] = {}
    for block in blocks:
        at = 0
        for i in block.operations:
            at += max(0, len(needed[i]) - 1)
            step[i] = at
            at += 1
    targets = {j for named in needed for j in named}
    done = []
    for b, block in enumerate(blocks):
        instructions: list[Instruction] = []
        for i in block.operations:
            waits = [(position[j][0], step[j]) for j in needed[i]]
            instructions += [Instruction("nop", None, None, 0, wait) for wait in waits[:-1]]
            op = operations[i]
            last = waits[-1] if waits else None
            instructions.append(Instruction(op.op, op.src, op.dst, op.count, last, i in targets))
        done.append(ThreadBlock(b, block.send_peer, block.recv_peer, block.channel, tuple(instructions)))
    return tuple(done)
