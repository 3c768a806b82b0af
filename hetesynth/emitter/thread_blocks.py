"""Operations of a rank -> thread blocks.

In: the operations of one rank in the one order, and what to keep apart. Out: thread blocks, each a list of
operations in that order. Knows nothing of dependences.

A thread block serves one send connection, one receive connection of the same channel, or both; additions and
late copies run where their message was received. Own-block copies have a thread block of their own.

No deadlock. Let the one order put every instruction of every GPU in line (``channels``). Thread blocks run
their instructions in that order, dependences point backwards in it, and a receive comes after its send. A send
has room: on its connection, every earlier message was received before this wave began, and the message itself
fits the FIFO - or, where it does not, it is alone in its wave, so nothing stands between it and its receive and
the two run together. Hence the first unfinished instruction of the line can always go on. Repeating the whole
program for large buffers only puts copies of the line one after the other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from hetesynth.emitter.layout import Cell
from hetesynth.emitter.placement import Operation
from hetesynth.model.target import Target
from hetesynth.model.topology import Rank

Connection = tuple[Rank, int]  # (peer, channel); the direction is known from where it stands


@dataclass(frozen=True, slots=True)
class Block:
    """A thread block before dependences: operations as positions in the rank's list."""

    send_peer: Rank | None
    recv_peer: Rank | None
    channel: int
    operations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """``alone``: receive connections that must not share a thread block with a send; ``no_copy_block``: own-block
    copies go to the first thread block with room instead of one of their own."""

    alone: frozenset[Connection] = frozenset()
    no_copy_block: bool = False


def thread_blocks(operations: tuple[Operation, ...], plan: BlockPlan, profile: Target) -> list[Block]:
    """The thread blocks of one rank: connections by channel and peer, then the copies."""
    sends: dict[Connection, list[int]] = defaultdict(list)
    receives: dict[Connection, list[int]] = defaultdict(list)
    copies: list[int] = []
    for i, op in enumerate(operations):
        if op.message is None:
            copies.append(i)
        elif op.op == "s":
            sends[op.message.dst, op.message.channel].append(i)
        else:
            receives[op.message.src, op.message.channel].append(i)
    blocks = _paired(operations, sends, receives, plan, profile)
    if not plan.no_copy_block:
        return [*blocks, *_copy_blocks(copies, profile)]
    return _with_copies(blocks, copies, profile)


def _copy_blocks(copies: list[int], profile: Target) -> Iterator[Block]:
    for i in range(0, len(copies), profile.max_steps):
        yield Block(None, None, 0, tuple(copies[i : i + profile.max_steps]))


def _with_copies(blocks: list[Block], copies: list[int], profile: Target) -> list[Block]:
    """The copies put before the operations of the shortest thread blocks."""
    for i in copies:
        if not blocks:
            return list(_copy_blocks(copies, profile))
        at = min(range(len(blocks)), key=lambda b: (len(blocks[b].operations), b))
        chosen = blocks[at]
        operations = tuple(sorted((*chosen.operations, i)))
        blocks[at] = Block(chosen.send_peer, chosen.recv_peer, chosen.channel, operations)
    return blocks


def _paired(
    operations: tuple[Operation, ...],
    sends: dict[Connection, list[int]],
    receives: dict[Connection, list[int]],
    plan: BlockPlan,
    profile: Target,
) -> list[Block]:
    """As few thread blocks as the pairing allows: those that forward what they receive first."""
    partner = _partners(_forwarded(operations), sends, receives, plan, profile)
    taken = set(partner.values())
    blocks = []
    for r in receives:
        mate = partner.get(r)
        joined = tuple(sorted((*receives[r], *(sends[mate] if mate else ()))))
        blocks.append(Block(mate[0] if mate else None, r[0], r[1], joined))
    blocks += [Block(s[0], None, s[1], tuple(sends[s])) for s in sends if s not in taken]
    return sorted(blocks, key=lambda b: (b.channel, _first(b.recv_peer), _first(b.send_peer)))


def _partners(
    forwarded: Counter[tuple[Connection, Connection]],
    sends: dict[Connection, list[int]],
    receives: dict[Connection, list[int]],
    plan: BlockPlan,
    profile: Target,
) -> dict[Connection, Connection]:
    """The send connection that shares a thread block with each receive connection that shares one."""
    partner: dict[Connection, Connection] = {}
    free: dict[int, list[Connection]] = defaultdict(list)
    for s in sorted(sends):
        free[s[1]].append(s)

    def join(r: Connection, candidates: list[Connection]) -> None:
        if r in partner or r in plan.alone:
            return
        for s in candidates:
            if s in free[r[1]] and len(receives[r]) + len(sends[s]) <= profile.max_steps:
                partner[r] = s
                free[r[1]].remove(s)
                return

    for r, s in sorted(forwarded, key=lambda pair: (-forwarded[pair], pair)):
        join(r, [s])
    for r in sorted(receives, key=lambda r: (r[1], r[0])):
        join(r, list(free[r[1]]))
    return partner


def _first(peer: Rank | None) -> int:
    return -1 if peer is None else peer


def _forwarded(operations: tuple[Operation, ...]) -> Counter[tuple[Connection, Connection]]:
    """How many sends of a connection read what a receive connection of the same channel wrote last."""
    wrote: dict[Cell, Connection] = {}
    found: Counter[tuple[Connection, Connection]] = Counter()
    for op in operations:
        if op.message is None:
            continue
        if op.op == "s":
            to = (op.message.dst, op.message.channel)
            origins = {wrote[cell] for cell in op.reads if cell in wrote}
            found.update((origin, to) for origin in origins if origin[1] == to[1])
        else:
            for cell in op.writes:
                wrote[cell] = (op.message.src, op.message.channel)
    return found
