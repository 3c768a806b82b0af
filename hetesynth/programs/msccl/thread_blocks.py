"""Operations of a rank -> thread blocks.

A thread block serves one send connection, one receive connection of the same channel, or both. One that is shared
does one thing at a time (HeteCCL 3.1), so connections share only where a receive is sent on at once by one
instruction, or where a GPU has fewer thread blocks than connections; then the lightest by time do.

No deadlock. Thread blocks run their instructions in one total order of all GPUs (``channels``), dependences point
backwards in it, and a receive comes after its send. A send has room: every earlier message of its connection was
received before this wave began, and the message fits the FIFO, or is alone in its wave and runs together with its
receive. A send fused into a receive stands earlier, where it was made sure that all under way fit (``assembly``).
Hence the first unfinished instruction can always go on."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from hetesynth.model.problem import Problem
from hetesynth.model.target import Target
from hetesynth.model.topology import Rank
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
    ``times``: of chunks, by which it is decided which connections share."""

    rank: Rank
    times: Mapping[Pair, Fraction]
    alone: frozenset[Connection] = frozenset()
    no_copy_block: bool = False
    sharing: Sharing = "needed"


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
    """The thread blocks of one rank: connections by channel and peer, then the copies.

    ``partners``: the send connection that shares a thread block with a receive connection.
    """
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
    """The send connection that shares a thread block with each receive connection that shares one.

    ``forwarded``: how many messages a receive connection can forward at once to a send connection of its channel;
    those that forward most share first. Then as many share as the limit of thread blocks asks for.
    """
    partner: dict[Connection, Connection] = {}
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
