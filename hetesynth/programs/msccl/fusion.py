"""Receives that add or forward at once: receive-reduce-copy, receive-copy-send, receive-reduce-send and
receive-reduce-copy-send, where the target has them.

In: the operations of one rank in the total order, and which send connection shares a thread block with which
receive connection. Out: the operations with additions and sends moved up into the receive they belong to.
Knows nothing of thread blocks beyond that pairing, and nothing of dependences.

An operation only ever moves up, to the place of a receive, and a receive never moves. So it is enough that

- nothing it passes writes what it reads, or touches what it writes: then every value is the same;
- its connection still carries its messages in order;
- at its new place the connection has room for it: all that is still under way there then, and the message
  itself, fit the FIFO in chunks. Then the argument against deadlock (``thread_blocks``) holds as before, with
  more than one message under way.

A sum that nobody reads again is not stored (receive-reduce-send), and its scratch is given up.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hetesynth.model.program import Op
from hetesynth.model.topology import Rank
from hetesynth.programs.layout import Cell
from hetesynth.programs.msccl.channels import Key, Message
from hetesynth.programs.msccl.placement import Operation

Connection = tuple[Rank, int]  # (peer, channel); the direction is known from where it stands
Partners = Mapping[Connection, Connection]  # receive connection -> the send connection of the same thread block
_OPS: dict[tuple[bool, bool], Op] = {(False, True): "rcs", (True, False): "rrc", (True, True): "rrcs"}


@dataclass(frozen=True, slots=True)
class Fused:
    """Operations of a rank, and how many operations went into others."""

    operations: tuple[Operation, ...]
    saved: int


class Traffic:
    """Messages by connection, in order: what is still under way when another is sent early."""

    def __init__(self, messages: Sequence[Message], slots: int) -> None:
        self.slots = slots
        self._position: dict[int, int] = {}
        self._connection: dict[tuple[Rank, Rank, int], list[Message]] = defaultdict(list)
        for m in messages:
            on_connection = self._connection[m.src, m.dst, m.channel]
            self._position[m.index] = len(on_connection)
            on_connection.append(m)

    def earlier(self, m: Message) -> Iterable[Message]:
        """The messages before ``m`` on its connection, the last one first."""
        on_connection = self._connection[m.src, m.dst, m.channel]
        return reversed(on_connection[: self._position[m.index]])

    def room(self, m: Message, key: Key) -> bool:
        """Whether ``m`` fits the FIFO when it is sent at ``key``."""
        under_way = len(m.chunks)
        for q in self.earlier(m):
            if q.receive_key <= key:
                break
            under_way += len(q.chunks)
        return under_way <= self.slots


def fused(operations: tuple[Operation, ...], partners: Partners, ops: frozenset[Op], traffic: Traffic) -> Fused:
    """The operations with all that can be fused under ``partners``; ``ops``: what the target executes."""
    return _Fuser(operations, ops, traffic).run(partners)


def forwards(
    operations: tuple[Operation, ...], ops: frozenset[Op], traffic: Traffic
) -> Counter[tuple[Connection, Connection]]:
    """How many sends each receive connection could forward at once to each send connection of its channel."""
    return _Fuser(operations, ops, traffic).candidates()


class _Fuser:
    def __init__(self, operations: tuple[Operation, ...], ops: frozenset[Op], traffic: Traffic) -> None:
        self.operations: list[Operation | None] = list(operations)
        self.ops = ops
        self.traffic = traffic
        self.readers: dict[Cell, list[int]] = defaultdict(list)
        self.writers: dict[Cell, list[int]] = defaultdict(list)
        self.additions: dict[int, list[int]] = defaultdict(list)
        self.sends: dict[tuple[int, ...], list[int]] = defaultdict(list)
        self.sent_at: dict[int, Key] = {}
        self.saved = 0
        for i, op in enumerate(operations):
            self._note(i, op)
            if op.message is None:
                continue
            if op.op == "re":
                self.additions[op.message.index].append(i)
            elif op.op == "s":
                self.sends[op.message.chunks].append(i)
                self.sent_at[op.message.index] = op.key

    def _note(self, i: int, op: Operation) -> None:
        for cell in op.reads:
            insort(self.readers[cell], i)
        for cell in op.writes:
            insort(self.writers[cell], i)

    def _forget(self, i: int, op: Operation) -> None:
        for cell in op.reads:
            self.readers[cell].remove(i)
        for cell in op.writes:
            self.writers[cell].remove(i)

    def run(self, partners: Partners) -> Fused:
        """Fuse in the order of the receives."""
        for i, op in enumerate(self.operations):
            if op is None or op.op != "r" or op.message is None:
                continue
            self._add_at_once(i, op)
            to = partners.get((op.message.src, op.message.channel))
            if to is not None:
                self._forward(i, to)
        return Fused(tuple(op for op in self.operations if op is not None), self.saved)

    def candidates(self) -> Counter[tuple[Connection, Connection]]:
        """Additions are fused first, as they decide what can be forwarded."""
        forwarded: Counter[tuple[Connection, Connection]] = Counter()
        for i, op in enumerate(self.operations):
            if op is None or op.op != "r" or op.message is None:
                continue
            m = op.message
            self._add_at_once(i, op)
            forwarded.update({((m.src, m.channel), to) for to, _ in self._forwardable(i)})
        return forwarded

    def _replace(self, i: int, op: Operation, *gone: int) -> None:
        for j in (i, *gone):
            old = self.operations[j]
            if old is not None:
                self._forget(j, old)
                self.operations[j] = None
        self.operations[i] = op
        self._note(i, op)
        self.saved += len(gone)

    # -- adding

    def _add_at_once(self, i: int, receive: Operation) -> None:
        """receive + addition -> receive-reduce-copy."""
        m = receive.message
        if "rrc" not in self.ops or m is None or len(self.additions.get(m.index, ())) != 1:
            return
        j = self.additions[m.index][0]
        add = self.operations[j]
        if add is None or add.count != receive.count or not self._may_pass(i, j, add):
            return
        if add.dst == receive.dst:
            operand, reads = add.src, add.reads[: add.count]
        elif add.src == receive.dst and self._only_reader(receive.writes, i, j):
            operand, reads = add.dst, add.writes
        else:
            return
        whole = replace(receive, op="rrc", src=operand, dst=add.dst, reads=reads, writes=add.writes)
        self._replace(i, whole, j)

    def _only_reader(self, cells: tuple[Cell, ...], i: int, j: int) -> bool:
        """Whether what ``i`` writes there is read by ``j`` alone."""
        return not self._between(self.readers, cells, i, j) and self._dead(cells, j)

    # -- forwarding

    def _forwardable(self, i: int) -> Iterable[tuple[Connection, int]]:
        """(send connection, send) of everything that the receive at ``i`` could send on at once."""
        receive = self.operations[i]
        if receive is None or receive.message is None:
            return
        name = _OPS[receive.op == "rrc", True]
        if name not in self.ops:
            return
        for j in self.sends.get(receive.message.chunks, ()):
            send = self.operations[j]
            if j < i or send is None or send.message is None:
                continue
            same = (send.src, send.count) == (receive.dst, receive.count)
            if not same or send.message.channel != receive.message.channel:
                continue
            if self._between(self.writers, send.reads, i, j) or not self._in_turn(send.message, receive.key):
                continue
            if self.traffic.room(send.message, receive.key):
                yield (send.message.dst, send.message.channel), j

    def _in_turn(self, m: Message, key: Key) -> bool:
        previous = next(iter(self.traffic.earlier(m)), None)
        return previous is None or self.sent_at[previous.index] < key

    def _forward(self, i: int, to: Connection) -> None:
        """receive (+ addition) + send -> receive-copy-send, receive-reduce-(copy-)send."""
        j = next((j for connection, j in self._forwardable(i) if connection == to), None)
        receive = self.operations[i]
        if j is None or receive is None:
            return
        send = self.operations[j]
        if send is None or send.message is None:
            return
        self.sent_at[send.message.index] = receive.key
        reduces = receive.op == "rrc"
        whole = replace(receive, op=_OPS[reduces, True], forwards=send.message)
        if not reduces:
            whole = replace(whole, src=receive.dst)
        self._replace(i, whole, j)
        scratch = all(buffer == "s" for buffer, _ in whole.writes)
        if reduces and "rrs" in self.ops and scratch and self._dead(whole.writes, i):
            self._replace(i, replace(whole, op="rrs", dst=whole.src, writes=()))

    # -- what stands between

    def _between(self, accesses: dict[Cell, list[int]], cells: Iterable[Cell], i: int, j: int) -> bool:
        """Whether an operation after ``i`` and before ``j`` makes such an access to one of the cells."""
        for cell in cells:
            accessing = accesses.get(cell, ())
            at = bisect_right(accessing, i)
            if at < len(accessing) and accessing[at] < j:
                return True
        return False

    def _may_pass(self, i: int, j: int, op: Operation) -> bool:
        """Whether the operation at ``j`` may move up to ``i``."""
        return not (
            self._between(self.writers, (*op.reads, *op.writes), i, j)
            or self._between(self.readers, op.writes, i, j)
        )

    def _dead(self, cells: Iterable[Cell], j: int) -> bool:
        """Whether nothing after ``j`` reads the cells before something writes them."""
        for cell in cells:
            readers, writers = self.readers.get(cell, []), self.writers.get(cell, [])
            read = bisect_right(readers, j)
            written = bisect_right(writers, j)
            if read < len(readers) and (written >= len(writers) or readers[read] <= writers[written]):
                return False
        return True
