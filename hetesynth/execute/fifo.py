"""Executes one rank of a ``Program`` as MSCCL's interpreter does, with real data.

A connection is (peer, channel); it holds ``slots`` messages, counted by credits: a send waits for a free slot, a
receive for a message, and taking a message gives the slot back. A step with hasdep publishes (loop, step) when it
is done; a dependence waits for a published number at least as high. Chunks larger than a message make the whole
program loop, each time over a slice of every chunk; a step with more chunks than fit a message sends several.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetesynth.execute.arithmetic import Arithmetic
from hetesynth.execute.memory import Memory, byte_copy
from hetesynth.execute.outcome import Fault
from hetesynth.execute.scheduling import Choice, Coroutine, Packet, Player, Position, Send, Wait, refuse
from hetesynth.model.program import BufferSlice, GpuProgram, Instruction, ThreadBlock
from hetesynth.model.target import PORTABLE

if TYPE_CHECKING:
    from hetesynth.execute.arithmetic import Elements

MESSAGE, CREDIT = 1, 2
MAX_PACKED = PORTABLE.max_count  # chunks in one message

_SENDS = frozenset({"s", "rcs", "rrs", "rrcs"})
_RECEIVES = frozenset({"r", "rcs", "rrs", "rrc", "rrcs"})
_READS = frozenset({"s", "rrs", "rrc", "rrcs", "cpy", "re"})
_WRITES = frozenset({"r", "rcs", "rrc", "rrcs", "cpy", "re"})

Connection = tuple[int, int]
"""(peer, channel)."""


@dataclass(frozen=True, slots=True)
class Loops:
    """How a chunk of ``chunk`` elements is split: slices of at most ``message`` elements, one loop each.

    ``batch``: the elements up to which several chunks go in one message; None: as ``message``.
    """

    chunk: int
    message: int
    slots: int
    batch: int | None = None

    @property
    def slices(self) -> list[slice]:
        """The elements of a chunk that each loop covers."""
        step = min(self.message, self.chunk)
        return [slice(first, min(first + step, self.chunk)) for first in range(0, self.chunk, step)]

    @property
    def packed(self) -> int:
        """Chunks that one message may carry."""
        return max(1, min(MAX_PACKED, (self.batch or self.message) // self.chunk))


class FifoPlayer(Player):
    """One rank of a program."""

    def __init__(
        self, gpu: GpuProgram, ranks: int, memory: Memory, numbers: Arithmetic, loops: Loops, send: Send,
        choose: Choice | None = None,
    ) -> None:  # fmt: skip
        self._gpu, self._ranks, self._memory, self._numbers = gpu, ranks, memory, numbers
        self._loops = loops
        self._in_use: dict[Connection, int] = {}  # slots towards a peer
        self._arrived: dict[Connection, deque[Elements]] = {}
        self._published: dict[int, tuple[int, int]] = {}
        super().__init__(send, choose)

    def _coroutines(self) -> list[Coroutine]:
        return [self._play(block) for block in self._gpu.thread_blocks]

    def deliver(self, packet: Packet) -> None:
        """A message, or a credit for one that was taken."""
        connection = (packet.peer, packet.channel)
        if packet.kind == MESSAGE and packet.data is not None:
            data = packet.data.view(self._numbers.type)
            self._arrived.setdefault(connection, deque()).append(data)
            self.wake(("message", connection))
        elif packet.kind == CREDIT:
            self._in_use[connection] -= 1
            self.wake(("slot", connection))
        else:
            raise refuse(packet.kind)

    def _unsettled(self) -> list[str]:
        return [
            f"sent {count} message{'s' if count > 1 else ''} on channel {channel} that rank {peer} never took"
            for (peer, channel), count in sorted(self._in_use.items())
            if count
        ]

    def _play(self, block: ThreadBlock) -> Coroutine:
        """The whole thread block, loop by loop."""
        for loop, elements in enumerate(self._loops.slices):
            for step, x in enumerate(block.instructions):
                position = Position(block.id, step, x.op, loop)
                if x.depends is not None:
                    other, published = x.depends
                    while self._published.get(other, (-1, -1)) < (loop, published):
                        reason = f"step {published} of thread block {other}"
                        yield Wait(("step", other), position, reason)
                if x.op == "nop":
                    continue
                try:
                    yield from self._execute(position, block, x, elements)
                except Fault as fault:
                    raise Fault(f"{position}: {fault}") from None
                if x.has_dependents:
                    self._published[block.id] = (loop, step)
                    self.wake(("step", block.id))

    def _execute(self, position: Position, block: ThreadBlock, x: Instruction, elements: slice) -> Coroutine:
        """One instruction, message by message."""
        communicates = x.op in _SENDS or x.op in _RECEIVES
        most = self._loops.packed if communicates else max(x.count, 1)
        for first in range(0, max(x.count, 1), most):
            count = min(most, x.count - first)
            src = self._view(x.src, first, count, elements) if x.op in _READS else None
            dst = self._view(x.dst, first, count, elements) if x.op in _WRITES else None
            if communicates:
                shape = count, elements.stop - elements.start
                yield from self._communicate(position, block, x.op, src, dst, shape)
            elif src is not None and dst is not None:
                dst[:] = src if x.op == "cpy" else self._numbers.combine(dst, src)

    def _communicate(
        self, position: Position, block: ThreadBlock, op: str, src: Elements | None, dst: Elements | None,
        shape: tuple[int, int],
    ) -> Coroutine:  # fmt: skip
        """Takes a message when one is there and, to pass it on, a slot is free; then computes, stores, sends."""
        source = self._connection(block.recv_peer, block.channel, "receive") if op in _RECEIVES else None
        target = self._connection(block.send_peer, block.channel, "send") if op in _SENDS else None
        while True:
            if source is not None and not self._arrived.get(source):
                reason = f"a message from rank {source[0]} on channel {source[1]}"
                yield Wait(("message", source), position, reason)
            elif target is not None and self._in_use.get(target, 0) >= self._loops.slots:
                reason = f"rank {target[0]} to take one of {self._loops.slots} messages on channel {target[1]}"
                yield Wait(("slot", target), position, reason)
            else:
                break
        data = src
        if source is not None:
            data = self._arrived[source].popleft()
            self.send(Packet(source[0], CREDIT, source[1]))
            if data.size != shape[0] * shape[1]:
                expected = f"{shape[0]} chunks of {shape[1]} elements"
                raise Fault(f"rank {source[0]} sent {data.size} elements on channel {source[1]}, not {expected}")
            data = data.reshape(shape)
            if src is not None:
                data = self._numbers.combine(data, src)
        if data is None:
            raise Fault("it has nothing to move")
        if dst is not None:
            dst[:] = data
        if target is not None:
            self._in_use[target] = self._in_use.get(target, 0) + 1
            self.send(Packet(target[0], MESSAGE, target[1], data=byte_copy(data)))

    def _connection(self, peer: int | None, channel: int, what: str) -> Connection:
        if peer is None or not 0 <= peer < self._ranks or peer == self._gpu.rank:
            raise Fault(f"there is no rank to {what} {'to' if what == 'send' else 'from'}")
        return peer, channel

    def _view(self, part: BufferSlice | None, first: int, count: int, elements: slice) -> Elements:
        if part is None:
            raise Fault("it names no buffer")
        return self._memory.view(part.buffer, part.offset + first, count, elements)
