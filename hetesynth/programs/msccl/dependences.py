"""Thread blocks -> instructions with dependences.

They make every execution equal to the total order on every cell (RAW, WAW, WAR; so HeteCCL eq. 8). What other
dependences, the order of thread blocks and messages imply is dropped; not so the wait of a send for a free slot,
as a deeper FIFO would make it a race. Of several dependences that remain, all but the last stand on nops
before."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from hetesynth.model.program import RECEIVES, Instruction, ThreadBlock
from hetesynth.programs.layout import Cell
from hetesynth.programs.msccl.placement import Operation
from hetesynth.programs.msccl.thread_blocks import Block

_Position = tuple[int, int]  # (thread block, operation within it)
_Progress = dict[int, int]  # thread block -> how many of its operations are known to be finished
Waits = list[tuple[int, ...]]
"""For each operation of a rank, the operations of other thread blocks it names, in order."""


@dataclass(frozen=True, slots=True)
class RankBlocks:
    """The operations of one rank and its thread blocks."""

    operations: tuple[Operation, ...]
    blocks: list[Block]

    def positions(self) -> dict[int, _Position]:
        """Operation -> where it runs."""
        return {i: (b, n) for b, block in enumerate(self.blocks) for n, i in enumerate(block.operations)}


def waits_of(rank: RankBlocks) -> Waits:
    """The direct conflicts with other thread blocks that order on the same GPU does not imply."""
    position = rank.positions()
    by_operation: list[_Progress] = []  # what each operation knows of other thread blocks
    latest: dict[int, _Progress] = {}
    needed: Waits = []
    for i, conflicts in enumerate(_conflicts(rank.operations)):
        block = position[i][0]
        progress = latest.setdefault(block, {})
        before = [j for j in conflicts if position[j][0] != block]
        named: list[int] = []
        if before:
            progress = latest[block] = dict(progress)
        for j in reversed(before):
            other, theirs = position[j]
            if progress.get(other, 0) > theirs:
                continue
            named.append(j)
            progress[other] = theirs + 1
            for b, finished in by_operation[j].items():
                if finished > progress.get(b, 0):
                    progress[b] = finished
        by_operation.append(progress)
        needed.append(tuple(named[::-1]))
    return needed


def _conflicts(operations: tuple[Operation, ...]) -> Waits:
    """For each operation, the earlier ones it conflicts with directly on some cell, in order."""
    wrote: dict[Cell, int] = {}
    read: dict[Cell, list[int]] = {}
    conflicts: Waits = []
    for i, op in enumerate(operations):
        before = {wrote[cell] for cell in op.reads if cell in wrote}
        for cell in op.writes:
            if cell in wrote:
                before.add(wrote[cell])
            if cell in read:
                before.update(read.pop(cell))
            wrote[cell] = i
        for cell in op.reads:
            read.setdefault(cell, []).append(i)
        before.discard(i)
        conflicts.append(tuple(sorted(before)) if before else ())
    return conflicts


def reduced(ranks: Sequence[RankBlocks], waits: Sequence[Waits]) -> list[Waits]:
    """Those of ``waits`` to which no other path leads, by rank.

    The operations of all ranks are one graph, by their places in the total order. Edges: the operation before in
    the same thread block, the dependences, the send of a message before its receive.
    """
    first = [0]
    for rank in ranks:
        first.append(first[-1] + len(rank.operations))
    keys = [op.key for rank in ranks for op in rank.operations]
    order = array("i", sorted(range(len(keys)), key=keys.__getitem__))
    number = len(order)
    place, previous, sender = (array("i", [value]) * number for value in (0, -1, -1))
    for at, g in enumerate(order):
        place[g] = at
    sent: dict[int, int] = {}
    named_by: list[tuple[int, ...]] = []
    for base, rank, of_rank in zip(first, ranks, waits, strict=False):
        for block in rank.blocks:
            for before, after in pairwise(block.operations):
                previous[base + after] = base + before
        named_by += [tuple(base + j for j in named) if named else () for named in of_rank]
        for i, op in enumerate(rank.operations):
            out = op.message if op.op == "s" else op.forwards
            if out is not None:
                sent[out.index] = base + i
    for base, rank in zip(first, ranks, strict=False):
        for i, op in enumerate(rank.operations):
            if op.message is not None and op.op in RECEIVES:
                sender[base + i] = sent[op.message.index]
    # by place in the total order, the places of what comes directly before
    direct = [tuple([place[p] for p in (previous[g], sender[g], *named_by[g]) if p >= 0]) for g in order]
    most = 500 if number <= 20_000 else 50  # operations looked at for a step: it keeps 1 in 50 too many
    kept: list[Waits] = []
    for base, of_rank in zip(first, waits, strict=False):
        of_rank = list(of_rank)
        kept.append(of_rank)
        for i, named in enumerate(of_rank):
            if not named:
                continue
            missing = {place[base + j] for j in named}
            earliest = min(missing)
            stack = [q for p in direct[place[base + i]] for q in direct[p]]
            seen: set[int] = set()
            while stack and missing and len(seen) <= most:
                p = stack.pop()
                if p >= earliest and p not in seen:
                    seen.add(p)
                    missing.discard(p)
                    stack += direct[p]
            of_rank[i] = tuple(j for j in named if place[base + j] not in seen)
    return kept


def written(rank: RankBlocks, needed: Waits) -> tuple[ThreadBlock, ...]:
    """The thread blocks, numbered in the order given, with nops in place so that steps can be named."""
    position = rank.positions()
    step: dict[int, int] = {}
    for block in rank.blocks:
        at = 0
        for i in block.operations:
            at += max(0, len(needed[i]) - 1)
            step[i] = at
            at += 1
    targets = {j for named in needed for j in named}
    done = []
    for b, block in enumerate(rank.blocks):
        instructions: list[Instruction] = []
        for i in block.operations:
            waits = [(position[j][0], step[j]) for j in needed[i]]
            instructions += [Instruction("nop", None, None, 0, wait) for wait in waits[:-1]]
            op = rank.operations[i]
            last = waits[-1] if waits else None
            instructions.append(Instruction(op.op, op.src, op.dst, op.count, last, i in targets))
        done.append(ThreadBlock(b, block.send_peer, block.recv_peer, block.channel, tuple(instructions)))
    return tuple(done)
