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

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np

from hetesynth.machine_code import run_kernel
from hetesynth.model import column
from hetesynth.model.problem import Problem
from hetesynth.model.program import OPS, RECEIVES, ThreadBlock
from hetesynth.model.step_table import Steps
from hetesynth.model.target import Target
from hetesynth.model.topology import Rank
from hetesynth.programs.msccl import kernels
from hetesynth.programs.msccl.channels import Message, Pair
from hetesynth.programs.msccl.kernels import SEND
from hetesynth.programs.msccl.placement import Ints, Operations, starts

Connection = tuple[Rank, int]  # (peer, channel); the direction is known from where it stands
Sharing = Literal["all", "needed"]
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
    """Return the time of a chunk from rank to rank, in one unit. ``seconds``: empty where rates are not known:
    then a chunk takes 1 / C(u, v) steps over all links of a pair together, C as far as resources allow it."""
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
    """The plan for the thread blocks of one rank. ``alone``: receive connections that must not share one with a
    send; ``no_copy_block``: own-block copies go to the first thread block with room instead of one of their own.
    ``times``: of chunks, by which it is decided which connections share, unless ``partners`` says so."""

    rank: Rank
    times: Mapping[Pair, Fraction]
    alone: frozenset[Connection] = frozenset()
    no_copy_block: bool = False
    sharing: Sharing = "needed"
    partners: Mapping[Connection, Connection] | None = None


@dataclass(frozen=True, slots=True)
class Connections:
    """The positions of the operations of each connection of a rank, and of the copies, which have none."""

    sends: Mapping[Connection, list[int]]
    receives: Mapping[Connection, list[int]]
    copies: list[int]

    @classmethod
    def of(cls, operations: Operations, messages: Sequence[Message]) -> list[Connections]:
        """Return by rank the operations of each connection; one that receives and forwards stands in both."""
        by_rank: list[Connections] = []
        ends = operations.first.tolist()
        columns = [values.tolist() for values in (operations.op, operations.message, operations.out)]
        for first, end in pairwise(ends):
            sends: dict[Connection, list[int]] = defaultdict(list)
            receives: dict[Connection, list[int]] = defaultdict(list)
            copies: list[int] = []
            rows = zip(*(values[first:end] for values in columns), strict=True)
            for i, (op, message, out) in enumerate(rows):
                if message < 0:
                    copies.append(i)
                    continue
                if out >= 0:
                    sends[messages[out].dst, messages[out].channel].append(i)
                if op != SEND:
                    receives[messages[message].src, messages[message].channel].append(i)
            by_rank.append(cls(sends, receives, copies))
        return by_rank


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
    counts: Sequence[int],
    connections: Connections,
    forwarded: Counter[tuple[Connection, Connection]],
    plan: BlockPlan,
    target: Target,
) -> dict[Connection, Connection]:
    """Return the send connection that shares a thread block with each receive connection that shares one.
    ``counts``: the chunks of each operation. ``forwarded``: how many messages a receive connection can forward at
    once to a send connection of its channel; pairs that forward most share first. Then as many share as the limit
    of thread blocks asks for."""
    partner: dict[Connection, Connection] = {}
    if plan.partners is not None:
        return dict(plan.partners)
    free = set(connections.sends)

    def join(r: Connection, s: Connection) -> bool:
        """Let ``r`` and ``s`` share a thread block if they are free and one holds all their steps; True if so."""
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
        return sum(counts[i] for i in positions)

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


@dataclass(frozen=True, slots=True)
class Waits:
    """The operations of other thread blocks that each operation names (waits for), in order: those of operation i
    are ``operation[first[i] : first[i + 1]]``, numbered over all ranks."""

    first: Ints
    operation: Ints

    def joined(self, waiting: Ints, awaited: Ints) -> Waits:
        """Return these waits together with those of ``waiting`` operations for ``awaited`` ones."""
        number = len(self.first) - 1
        rows = np.concatenate((np.repeat(np.arange(number), np.diff(self.first)), waiting))
        rows, operation = np.unique(np.stack((rows, np.concatenate((self.operation, awaited)))), axis=1)
        return Waits(starts(np.bincount(rows, minlength=number)), operation)


@dataclass(frozen=True, eq=False)
class Code:
    """The operations of all ranks in their thread blocks."""

    operations: Operations
    blocks: Sequence[Sequence[Block]]

    @cached_property
    def lengths(self) -> Ints:
        """The number of operations of every thread block."""
        return np.array([len(b.operations) for of_rank in self.blocks for b in of_rank], dtype=np.int64)

    @cached_property
    def running(self) -> Ints:
        """The operations thread block by thread block."""
        firsts = self.operations.first.tolist()
        zipped = zip(firsts, self.blocks, strict=False)
        return np.array([first + i for first, of in zipped for b in of for i in b.operations], dtype=np.int64)

    @cached_property
    def places(self) -> tuple[Ints, Ints]:
        """The thread block of each operation, numbered on its rank, and the position of the operation in it."""
        block, position = np.empty((2, len(self.running)), dtype=np.int64)
        numbers = [b for of_rank in self.blocks for b in range(len(of_rank))]
        block[self.running] = np.repeat(np.array(numbers, dtype=np.int64), self.lengths)
        begins = np.repeat(starts(self.lengths)[:-1], self.lengths)
        position[self.running] = np.arange(len(self.running)) - begins
        return block, position

    def by_rank(self, of_blocks: Ints) -> list[list[int]]:
        """Return ``of_blocks``, which has a number for every thread block, as one list per rank."""
        ends = np.cumsum([len(of_rank) for of_rank in self.blocks])[:-1]
        return [part.tolist() for part in np.split(of_blocks, ends)]


def waits_of(code: Code) -> Waits:
    """Return the waits for direct conflicts with other thread blocks that order on the same GPU does not imply."""
    o, (block, position) = code.operations, code.places
    blocks, lengths = np.array([len(of_rank) for of_rank in code.blocks]), np.diff(o.first)
    number = len(o.op)
    reads = sum(int(o.count[values >= 0].sum()) for values in (o.read, o.also))
    writes = int(o.count[o.write >= 0].sum())
    cells = 1 + max((int((c + o.count).max(initial=0)) for c in (o.read, o.also, o.write)), default=0)
    clocks = kernels.Clocks(
        np.full(cells, -1),
        np.full(cells, -1),
        np.zeros(reads, dtype=np.int64),
        np.zeros(reads, dtype=np.int64),
        np.zeros(2 * reads + writes + 1, dtype=np.int64),
        np.zeros(int(((blocks + lengths) * blocks).max(initial=0)), dtype=np.int32),
        np.zeros(number, dtype=np.int64),
        np.zeros(int(blocks.max(initial=0)), dtype=np.int64),
    )
    named = kernels.Named(np.zeros(number + 1, dtype=np.int64), np.zeros(2 * reads + writes, dtype=np.int64))
    conflicting = kernels.Conflicting(o.first, blocks, o.read, o.also, o.write, o.count, block, position)
    count = run_kernel(kernels.waits, conflicting, clocks, named, seconds=5e-6 * number)
    return Waits(named.first, named.operation[:count])


def reduced(code: Code, waits: Waits) -> Waits:
    """Return ``waits`` without those that another path implies. The operations of all ranks are one graph, by
    their places in the total order. Edges: the operation before in the same thread block, the dependences, the
    send of a message before its receive."""
    o, number = code.operations, len(code.operations.op)
    in_order = np.argsort(o.order, kind="stable")
    place, previous, sender = np.empty(number, dtype=np.int64), np.full(number, -1), np.full(number, -1)
    place[in_order] = np.arange(number)
    begins = np.zeros(number, dtype=np.bool_)
    begins[starts(code.lengths)[:-1][code.lengths > 0]] = True
    follows = np.flatnonzero(~begins)
    previous[code.running[follows]] = place[code.running[follows - 1]]
    sent = np.zeros(int(max(o.message.max(initial=-1), o.out.max(initial=-1))) + 1, dtype=np.int64)
    sends = np.flatnonzero(o.out >= 0)
    sent[o.out[sends]] = place[sends]
    receives = np.flatnonzero(np.isin(o.op, _RECEIVES) & (o.message >= 0))
    sender[receives] = sent[o.message[receives]]
    # by place in the total order
    lengths = np.diff(waits.first)
    at = np.repeat(waits.first[:-1][in_order], lengths[in_order])
    named_first = starts(lengths[in_order])
    at += np.arange(len(at)) - np.repeat(named_first[:-1], lengths[in_order])
    named = place[waits.operation[at]]
    first = [values[in_order] for values in (previous, sender)]
    rows = np.concatenate(
        (*(np.flatnonzero(c >= 0) for c in first), np.repeat(np.arange(number), lengths[in_order]))
    )
    direct = np.concatenate((*(c[c >= 0] for c in first), named))[np.argsort(rows, kind="stable")]
    direct_first = starts(np.bincount(rows, minlength=number))
    widest = int(np.diff(direct_first).max(initial=0))
    most = 500 if number <= 20_000 else 50  # operations looked at for a step: it keeps 1 in 50 too many
    paths = kernels.Paths(direct_first, direct, named_first, named, most)
    search = kernels.Search(
        np.full(number, -1), np.full(number, -1), np.zeros(widest * (widest + most + 2), dtype=np.int64)
    )
    kept = kernels.Kept(np.ones(len(named), dtype=np.int64))
    run_kernel(kernels.implied, paths, search, kept, seconds=2e-5 * len(named))
    stays = np.empty(len(named), dtype=np.int64)
    stays[at] = kept.kept
    return Waits(starts(stays)[waits.first], waits.operation[stays > 0])


_RECEIVES = [OPS.index(op) for op in sorted(RECEIVES)]


def written(code: Code, waits: Waits) -> list[tuple[ThreadBlock, ...]]:
    """The thread blocks by rank, numbered in the order given, with nops in place so that steps can be named."""
    o, (block, _) = code.operations, code.places
    lengths = np.diff(waits.first)
    nops = np.maximum(0, lengths - 1)[code.running]
    step, before = np.empty(len(nops), dtype=np.int64), np.cumsum(nops + 1) - 1
    begins = starts(code.lengths)[:-1]
    shift = np.concatenate(([0], before + 1))[begins]
    step[code.running] = before - np.repeat(shift, code.lengths)
    is_target = np.zeros(len(nops), dtype=np.bool_)
    is_target[waits.operation] = True
    # rows of operations, in the order of thread blocks, each behind the nops that wait for all but its last wait
    running, ends = code.running, waits.first[1:]
    named = block[waits.operation], step[waits.operation]
    rows = np.full((int(before[-1]) + 1 if len(before) else 0, column.AWAITED + 1), -1)
    rows[:, [column.OP, column.COUNT, column.AWAITED]] = OPS.index("nop"), 0, 0
    own = rows[before]
    for at, values in ((column.OP, o.op), (column.COUNT, o.count), (column.AWAITED, is_target)):
        own[:, at] = values[running]
    for place, columns in ((o.src, [column.SRC_BUFFER, column.SRC]), (o.dst, [column.DST_BUFFER, column.DST])):
        own[:, columns] = np.stack((place[running] % 3, place[running] // 3), axis=1)
    waiting = np.flatnonzero(lengths[running] > 0)
    for at, of in zip((column.BLOCK, column.STEP), named, strict=True):
        own[waiting, at] = of[ends[running[waiting]] - 1]
    rows[before] = own
    is_nop = np.ones(len(rows), dtype=np.bool_)
    is_nop[before] = False
    earlier = np.repeat(waits.first[:-1][running], nops)
    earlier += np.arange(len(earlier)) - np.repeat(np.cumsum(nops) - nops, nops)
    rows[is_nop, column.BLOCK : column.STEP + 1] = np.stack([of[earlier] for of in named], axis=1)
    cuts = pairwise([*shift.tolist(), len(rows)])
    done: list[tuple[ThreadBlock, ...]] = []
    for of_rank in code.blocks:
        blocks = [
            ThreadBlock(b, of.send_peer, of.recv_peer, of.channel, Steps(rows[first:end]))
            for b, (of, (first, end)) in enumerate(zip(of_rank, cuts, strict=False))
        ]
        done.append(tuple(blocks))
    return done
