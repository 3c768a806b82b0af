"""Operations of a rank -> thread blocks.

In: the operations of one rank in the total order, and what to keep apart. Out: thread blocks, each a list of
operations in that order. Knows nothing of dependences.

A thread block serves one send connection, one receive connection of the same channel, or both; additions and
late copies run where their message was received. Own-block copies have a thread block of their own. A shared
thread block does one thing at a time, and what it waits for holds up the other link (HeteCCL 3.1: one link for the
lifetime of a thread block). So connections share only where a receive is sent on at once by one instruction, or
where a GPU has fewer thread blocks than connections; then the lightest by time do.

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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from hetesynth.model.target import Target
from hetesynth.model.topology import Rank
from hetesynth.programs.msccl.chunk_times import ChunkTimes
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


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """``alone``: receive connections that must not share a thread block with a send; ``no_copy_block``: own-block
    copies go to the first thread block with room instead of one of their own. ``times``: by which it is decided
    which connections share."""

    times: ChunkTimes
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

    ``forwarded``: how many messages a receive connection can forward at once to a send connection of its channel;
    those that forward most share first. Then as many share as the limit of thread blocks asks for.
    """
    pairing = _Pairing(connections, plan.alone, target.max_steps)
    if plan.sharing == "none":
        return pairing.partner
    for r, s in sorted(forwarded, key=lambda pair: (-forwarded[pair], pair)):
        pairing.join(r, s)
    copies = 0 if plan.no_copy_block else -(-len(connections.copies) // target.max_steps)
    single = len(connections.sends) + len(connections.receives) - len(pairing.partner)
    too_many = single if plan.sharing == "all" else single + copies - target.thread_blocks
    if too_many > 0:
        pairing.join_lightest(too_many, _busy(operations, connections, plan))
    return pairing.partner


@dataclass(frozen=True, slots=True)
class _Busy:
    """How long each connection of a rank keeps a thread block busy."""

    receives: Mapping[Connection, Fraction]
    sends: Mapping[Connection, Fraction]


def _busy(operations: tuple[Operation, ...], connections: Connections, plan: BlockPlan) -> _Busy:
    def chunks(of: list[int]) -> int:
        return sum(operations[i].count for i in of)

    return _Busy(
        {r: chunks(of) * plan.times.receive[r[0]] for r, of in connections.receives.items()},
        {s: chunks(of) * plan.times.send[s[0]] for s, of in connections.sends.items()},
    )


class _Pairing:
    """Which receive connections share a thread block with which send connections, one by one."""

    def __init__(self, connections: Connections, alone: frozenset[Connection], max_steps: int) -> None:
        self.partner: dict[Connection, Connection] = {}
        self._connections, self._alone, self._max_steps = connections, alone, max_steps
        self._free = set(connections.sends)

    def join(self, r: Connection, s: Connection) -> bool:
        """``r`` and ``s`` share a thread block where both are free and one holds all their steps."""
        if r in self.partner or r in self._alone or s not in self._free or r[1] != s[1]:
            return False
        if len(self._connections.receives[r]) + len(self._connections.sends[s]) > self._max_steps:
            return False
        self.partner[r] = s
        self._free.remove(s)
        return True

    def join_lightest(self, number: int, busy: _Busy) -> None:
        """Up to ``number`` more pairs, such that the thread block that is busy longest is so as briefly as can be.

        Of a channel the lightest share, the lightest of them with the heaviest; each further pair is of the
        channel where the longest is shortest.
        """
        channels = sorted({s[1] for s in self._free})
        receives = {c: self._lightest(self._open_receives(c), busy.receives) for c in channels}
        sends = {c: self._lightest([s for s in self._free if s[1] == c], busy.sends) for c in channels}
        chosen = dict.fromkeys(channels, 0)

        def longest(c: int, pairs: int) -> Fraction:
            both = zip(receives[c][:pairs], reversed(sends[c][:pairs]), strict=True)
            return max(busy.receives[r] + busy.sends[s] for r, s in both)

        for _ in range(number):
            growing = [c for c in channels if chosen[c] < min(len(receives[c]), len(sends[c]))]
            if not growing:
                break
            chosen[min(growing, key=lambda c: (longest(c, chosen[c] + 1), c))] += 1
        for c, pairs in chosen.items():
            for r, s in zip(receives[c][:pairs], reversed(sends[c][:pairs]), strict=True):
                number -= self.join(r, s)
        lightest_first = [(r, s) for c in channels for r in receives[c] for s in sends[c]] if number else []
        for r, s in lightest_first:  # instead of pairs that have too many steps together
            if number:
                number -= self.join(r, s)

    def _open_receives(self, channel: int) -> list[Connection]:
        open_to_sends = self._connections.receives.keys() - self.partner.keys() - self._alone
        return [r for r in open_to_sends if r[1] == channel]

    @staticmethod
    def _lightest(connections: Iterable[Connection], busy: Mapping[Connection, Fraction]) -> list[Connection]:
        return sorted(connections, key=lambda connection: (busy[connection], connection))


def _first(peer: Rank | None) -> int:
    return -1 if peer is None else peer
