"""Operations of a rank -> thread blocks.

In: the operations of one rank in the total order, and what to keep apart. Out: thread blocks, each a list of
operations in that order. Knows nothing of dependences.

A thread block serves one send connection, one receive connection of the same channel, or both; additions and
late copies run where their message was received. Own-block copies have a thread block of their own. How many
connections share is a choice (``Sharing``): a shared thread block does one thing at a time, two do both at once.

No deadlock. The total order holds every instruction of every GPU (``channels``). Thread blocks run
their instructions in that order, dependences point backwards in it, and a receive comes after its send. A send
has room: on its connection, every earlier message was received before this wave began, and the message itself
fits the FIFO - or, where it does not, it is alone in its wave, so nothing stands between it and its receive and
the two run together. A send that was fused into a receive stands earlier in it, at that receive; there it
was made sure that all messages of its connection under way, itself included, fit the FIFO in chunks
(``fusion``), and receives keep their places. Hence the first unfinished instruction of the order can always go
on. Repeating the whole program for large buffers only puts copies of the order one after the other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from hetesynth.lowering.layout import Cell
from hetesynth.lowering.msccl.placement import Operation
from hetesynth.model.target import Target
from hetesynth.model.topology import Rank

Connection = tuple[Rank, int]  # (peer, channel); the direction is known from where it stands
Sharing = Literal["all", "idle", "relays", "none"]
"""Which send and receive connections share a thread block. ``relays``: those where a receive is sent on at once.
``idle``: those too that never carry a message in the same tick. ``all``: as many as can."""
SHARINGS: tuple[Sharing, ...] = ("all", "idle", "relays", "none")


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
    sharing: Sharing = "all"


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
        send_connection = partners.get(r)
        sent = connections.sends[send_connection] if send_connection else ()
        joined = tuple(sorted({*received, *sent}))
        blocks.append(Block(send_connection[0] if send_connection else None, r[0], r[1], joined))
    blocks += [Block(s[0], None, s[1], tuple(ops)) for s, ops in connections.sends.items() if s not in shared]
    blocks.sort(key=lambda b: (b.channel, _first(b.recv_peer), _first(b.send_peer)))
    if not plan.no_copy_block:
        return [*blocks, *_copy_blocks(connections.copies, target)]
    return _with_copies(blocks, connections.copies, target)


def _copy_blocks(copies: list[int], target: Target) -> Iterator[Block]:
    for i in range(0, len(copies), target.max_steps):
        yield Block(None, None, 0, tuple(copies[i : i + target.max_steps]))


def _with_copies(blocks: list[Block], copies: list[int], target: Target) -> list[Block]:
    """The copies put before the operations of the shortest thread blocks."""
    for i in copies:
        if not blocks:
            return list(_copy_blocks(copies, target))
        at = min(range(len(blocks)), key=lambda b: (len(blocks[b].operations), b))
        shortest = blocks[at]
        operations = tuple(sorted((*shortest.operations, i)))
        blocks[at] = Block(shortest.send_peer, shortest.recv_peer, shortest.channel, operations)
    return blocks


def partners(
    operations: tuple[Operation, ...],
    connections: Connections,
    forwarded: Counter[tuple[Connection, Connection]],
    plan: BlockPlan,
    target: Target,
) -> dict[Connection, Connection]:
    """The send connection that shares a thread block with each receive connection that shares one.

    ``forwarded``: how many messages go from a receive connection to a send connection of its channel at once;
    those that forward most share first.
    """
    partner: dict[Connection, Connection] = {}
    free: dict[int, list[Connection]] = defaultdict(list)
    for s in sorted(connections.sends):
        free[s[1]].append(s)

    def join(r: Connection, candidates: list[Connection]) -> None:
        if r in partner or r in plan.alone:
            return
        for s in candidates:
            if s in free[r[1]] and len(connections.receives[r]) + len(connections.sends[s]) <= target.max_steps:
                partner[r] = s
                free[r[1]].remove(s)
                return

    if plan.sharing == "none":
        return partner
    for r, s in sorted(forwarded, key=lambda pair: (-forwarded[pair], pair)):
        join(r, [s])
    if plan.sharing == "relays":
        return partner
    ticks = _Ticks(operations, connections)
    for r in sorted(connections.receives, key=lambda r: (r[1], r[0])):
        join(r, [s for s in free[r[1]] if plan.sharing == "all" or ticks.apart(r, s)])
    return partner


class _Ticks:
    """When each connection of a rank carries messages."""

    def __init__(self, operations: tuple[Operation, ...], connections: Connections) -> None:
        def ticks(of: list[int]) -> set[int]:
            return {m.start for i in of if (m := operations[i].message) is not None}

        self.receiving = {r: ticks(of) for r, of in connections.receives.items()}
        self.sending = {s: ticks(of) for s, of in connections.sends.items()}

    def apart(self, r: Connection, s: Connection) -> bool:
        """Whether the two are never busy in the same tick."""
        return self.receiving[r].isdisjoint(self.sending[s])


def _first(peer: Rank | None) -> int:
    return -1 if peer is None else peer


def passed_on(operations: tuple[Operation, ...]) -> Counter[tuple[Connection, Connection]]:
    """How many sends of a connection read what a receive connection of the same channel wrote last."""
    wrote: dict[Cell, Connection] = {}
    passed: Counter[tuple[Connection, Connection]] = Counter()
    for op in operations:
        if op.message is None:
            continue
        if op.op == "s":
            to = (op.message.dst, op.message.channel)
            origins = {wrote[cell] for cell in op.reads if cell in wrote}
            passed.update((origin, to) for origin in origins if origin[1] == to[1])
        else:
            for cell in op.writes:
                wrote[cell] = (op.message.src, op.message.channel)
    return passed
