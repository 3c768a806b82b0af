"""Operations of a rank -> thread blocks -> instructions with dependences.

A thread block serves one send connection, one receive connection of the same channel, or both. One that is shared
does one thing at a time (HeteCCL 3.1), so connections share only where a receive is sent on at once by one
instruction, or where a GPU has fewer thread blocks than connections; then the lightest by time do.

No deadlock. Thread blocks run their instructions in one total order of all GPUs (``channels``), dependences point
backwards in it, and a receive comes after its send. A send has room: every earlier message of its connection was
received before this wave began, and the message fits the FIFO, or is alone in its wave and runs together with its
receive. A send fused into a receive stands earlier, where it was made sure that all under way fit (``assembly``).
Hence the first unfinished instruction can always go on.

Dependences make every execution equal to the total order on every cell (RAW, WAW, WAR; so HeteCCL eq. 8). What
other dependences, the order of thread blocks and messages imply is dropped; not so the wait of a send for a free
slot, as a deeper FIFO would make it a race. Of several that remain, all but the last stand on nops before."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Literal

from hetesynth.model.problem import Problem
from hetesynth.model.program import RECEIVES, Instruction, ThreadBlock
from hetesynth.model.target import Target
from hetesynth.model.topology import Rank
from hetesynth.programs.layout import Cell
from hetesynth.programs.msccl.channels import Pair
from hetesynth.programs.msccl.placement import Operation

Connection = tuple[Rank, int]  # (peer, channel); the direction is known from where it stands
Sharing = Literal["all", "needed", "none"]
"""Which send and receive connections share a thread block. ``needed``: those where a receive is sent on at once by
one instruction, and as many others as the limit of thread blocks asks for. ``all``: as many as can."""


@dataclass(frozen=True, slots=True)
class Block:
    """A thread block before dependences: operations as positions in the rank's list."""

    send_peer: Rank | None
    recv_peer: Rank | None
    channel: int
    operations: tuple[int, ...]


def chunk_times(problem: Problem, seconds: Mapping[Pair, float]) -> dict[Pair, Fraction]:
    """Of a chunk from rank to rank, in one unit; ``seconds``: empty where rates are not known: then it takes
    1 / C(u, v) steps over all links of a pair together, C as far as resources allow it."""
    if seconds:
        return {pair: Fraction(of_pair) for pair, of_pair in seconds.items()}
    capacity = [arc.capacity for arc in problem.arcs]
    for resource in problem.resources:
        for a in resource.arcs:
            capacity[a] = min(capacity[a], resource.capacity)
    of_pairs: Counter[Pair] = Counter()
    for arc, chunks in zip(problem.arcs, capacity, strict=True):
        of_pairs[arc.src, arc.dst] += chunks
    return {pair: Fraction(1, chunks) for pair, chunks in of_pairs.items()}


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """Of one rank. ``alone``: receive connections that must not share a thread block with a send;
    ``no_copy_block``: own-block copies go to the first thread block with room instead of one of their own.
    ``times``: of chunks, by which it is decided which connections share, unless ``partners`` says so."""

    rank: Rank
    times: Mapping[Pair, Fraction]
    alone: frozenset[Connection] = frozenset()
    no_copy_block: bool = False
    sharing: Sharing = "needed"
    partners: Mapping[Connection, Connection] | None = None


@dataclass(frozen=True, slots=True)
class Connections:
    """Positions of the operations of each connection of a rank, and of those that have none."""

    sends: Mapping[Connection, list[int]]
    receives: Mapping[Connection, list[int]]
    copies: list[int]

    @classmethod
    def of(cls, operations: tuple[Operation, ...]) -> Connections:
        """Sort the operations by what they serve; one that receives and forwards stands in both."""
        sends: dict[Connection, list[int]] = defaultdict(list)
        receives: dict[Connection, list[int]] = defaultdict(list)
        copies: list[int] = []
        for i, op in enumerate(operations):
            if op.message is None:
                copies.append(i)
                continue
            out = op.message if op.op == "s" else op.forwards
            if out is not None:
                sends[out.dst, out.channel].append(i)
            if op.op != "s":
                receives[op.message.src, op.message.channel].append(i)
        return cls(sends, receives, copies)


def thread_blocks(
    connections: Connections, partners: Mapping[Connection, Connection], plan: BlockPlan, target: Target
) -> list[Block]:
    """The thread blocks of one rank: connections by channel and peer, then the copies. ``partners``: the send
    connection that shares a thread block with a receive connection."""
    shared = set(partners.values())
    blocks = []
    for r, received in connections.receives.items():
        s = partners.get(r)
        both = sorted({*received, *(connections.sends[s] if s else ())})
        blocks.append(Block(s[0] if s else None, r[0], r[1], tuple(both)))
    blocks += [Block(s[0], None, s[1], tuple(ops)) for s, ops in connections.sends.items() if s not in shared]
    blocks.sort(key=lambda b: (b.channel, *(-1 if peer is None else peer for peer in (b.recv_peer, b.send_peer))))
    copies, longest = connections.copies, target.max_steps
    if not plan.no_copy_block or not blocks:
        blocks += [Block(None, None, 0, tuple(copies[i : i + longest])) for i in range(0, len(copies), longest)]
        return blocks
    for i in copies:  # before the operations of the shortest thread block
        at = min(range(len(blocks)), key=lambda b: (len(blocks[b].operations), b))
        blocks[at] = replace(blocks[at], operations=tuple(sorted((*blocks[at].operations, i))))
    return blocks


def partners(
    operations: tuple[Operation, ...],
    connections: Connections,
    forwarded: Counter[tuple[Connection, Connection]],
    plan: BlockPlan,
    target: Target,
) -> dict[Connection, Connection]:
    """The send connection that shares a thread block with each receive connection that shares one. ``forwarded``:
    how many messages a receive connection can forward at once to a send connection of its channel; those that
    forward most share first. Then as many share as the limit of thread blocks asks for."""
    partner: dict[Connection, Connection] = {}
    if plan.partners is not None:
        return dict(plan.partners)
    if plan.sharing == "none":
        return partner
    free = set(connections.sends)

    def join(r: Connection, s: Connection) -> bool:
        """They share a thread block where both are free and one holds all their steps."""
        together = len(connections.receives[r]) + len(connections.sends[s])
        if r in partner or r in plan.alone or s not in free or r[1] != s[1] or together > target.max_steps:
            return False
        partner[r] = s
        free.remove(s)
        return True

    for r, s in sorted(forwarded, key=lambda pair: (-forwarded[pair], pair)):
        join(r, s)
    copies = 0 if plan.no_copy_block else -(-len(connections.copies) // target.max_steps)
    number = len(connections.sends) + len(connections.receives) - len(partner)
    number += 0 if plan.sharing == "all" else copies - target.thread_blocks
    if number <= 0:
        return partner

    # so many more pairs, such that the thread block that is busy longest is so as briefly as can be: of a channel
    # the lightest share, the lightest of them with the heaviest, and each further pair is where that is shortest
    def chunks(positions: list[int]) -> int:
        return sum(operations[i].count for i in positions)

    times, rank = plan.times, plan.rank
    receiving = {r: chunks(positions) * times[r[0], rank] for r, positions in connections.receives.items()}
    sending = {s: chunks(positions) * times[rank, s[0]] for s, positions in connections.sends.items()}
    channels = sorted({s[1] for s in free})
    receives: dict[int, list[Connection]] = {c: [] for c in channels}
    for r in sorted(connections.receives.keys() - partner.keys() - plan.alone, key=lambda r: (receiving[r], r)):
        receives.setdefault(r[1], []).append(r)
    sends: dict[int, list[Connection]] = {c: [] for c in channels}
    for s in sorted(free, key=lambda s: (sending[s], s)):
        sends[s[1]].append(s)
    chosen = dict.fromkeys(channels, 0)

    def longest(c: int, pairs: int) -> Fraction:
        both = zip(receives[c][:pairs], reversed(sends[c][:pairs]), strict=True)
        return max(receiving[r] + sending[s] for r, s in both)

    for _ in range(number):
        growing = [c for c in channels if chosen[c] < min(len(receives[c]), len(sends[c]))]
        if not growing:
            break
        chosen[min(growing, key=lambda c: (longest(c, chosen[c] + 1), c))] += 1
    for c, pairs in chosen.items():
        for r, s in zip(receives[c][:pairs], reversed(sends[c][:pairs]), strict=True):
            number -= join(r, s)
    lightest_first = [(r, s) for c in channels for r in receives[c] for s in sends[c]] if number else []
    for r, s in lightest_first:  # instead of pairs that have too many steps together
        if number:
            number -= join(r, s)
    return partner


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


def waits_of(rank: RankBlocks, after: Mapping[int, int]) -> Waits:
    """The direct conflicts with other thread blocks that order on the same GPU does not imply. ``after``: the
    message that has to be sent before another one."""
    position = rank.positions()
    by_operation: list[_Progress] = []  # what each operation knows of other thread blocks
    latest: dict[int, _Progress] = {}
    needed: Waits = []
    sent = {op.message.index: i for i, op in enumerate(rank.operations) if op.message and op.op == "s"}
    for i, conflicts in enumerate(_conflicts(rank.operations)):
        message = rank.operations[i].message
        if message is not None and message.index in after and rank.operations[i].op == "s":
            conflicts = tuple(sorted({*conflicts, sent[after[message.index]]}))
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
    """Those of ``waits`` to which no other path leads, by rank. The operations of all ranks are one graph, by
    their places in the total order. Edges: the operation before in the same thread block, the dependences, the
    send of a message before its receive."""
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
