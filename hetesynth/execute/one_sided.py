"""Executes one rank of a ``Plan`` as MSCCL++ does, with real data: writes into peers, signals, waits.

A put is a packet with the address and the data; the target's rank stores it when it comes, whatever its thread
blocks do, and packets of one rank come in order, so a signal comes after the puts before it. Reading a peer is a
request and an answer. Every put and signal is acknowledged, so that a rank knows when all it did has happened.
Operations of a thread block are done one after the other: a missing nop does not show here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from typing import TYPE_CHECKING

from hetesynth.execute.arithmetic import Arithmetic
from hetesynth.execute.memory import Memory, byte_copy
from hetesynth.execute.outcome import Fault
from hetesynth.execute.scheduling import Choice, Coroutine, Packet, Player, Position, Send, Wait, refuse
from hetesynth.model.plan import CHANNEL_TYPES, ChannelType, GpuPlan, LocalSlice, PlanBlock, PlanOperation, Slice
from hetesynth.model.program import Buffer

if TYPE_CHECKING:
    from hetesynth.execute.arithmetic import Elements

PUT, SIGNAL, ACKNOWLEDGEMENT, REQUEST, ANSWER = range(11, 16)
_BUFFERS: tuple[Buffer, ...] = ("i", "o", "s")

End = tuple[int, int]
"""A channel as both its ends name it: (peer, 2 * its number among those of its type between the two + type)."""


class PlanPlayer(Player):
    """One rank of a plan."""

    def __init__(
        self, gpu: GpuPlan, memory: Memory, numbers: Arithmetic, send: Send, choose: Choice | None = None
    ) -> None:
        self._gpu, self._memory, self._numbers = gpu, memory, numbers
        self._ends = {kind: _ends(gpu, kind) for kind in CHANNEL_TYPES}
        self._signals: Counter[End] = Counter()
        self._open: Counter[int] = Counter()  # by peer: not yet acknowledged
        self._answers: dict[int, Elements] = {}
        self._requests = 0
        self._semaphores = list(gpu.semaphores)
        self._arrived: Counter[int] = Counter()  # at barriers, ever
        super().__init__(send, choose)

    def _coroutines(self) -> list[Coroutine]:
        return [self._play(block) for block in self._gpu.blocks]

    def deliver(self, packet: Packet) -> None:
        """What a peer does to this rank, or answers."""
        a, b, c, _ = packet.numbers
        if packet.kind == PUT and packet.data is not None:
            target = self._memory.seen_from(packet.peer, _BUFFERS[a], b, c)
            target[:] = packet.data.view(self._numbers.type).reshape(target.shape)
            self.send(Packet(packet.peer, ACKNOWLEDGEMENT))
        elif packet.kind == SIGNAL:
            end = (packet.peer, packet.channel)
            self._signals[end] += 1
            self.send(Packet(packet.peer, ACKNOWLEDGEMENT))
            self.wake(("signal", end))
        elif packet.kind == ACKNOWLEDGEMENT:
            self._open[packet.peer] -= 1
        elif packet.kind == REQUEST:
            source = self._memory.seen_from(packet.peer, _BUFFERS[a], b, c)
            self.send(Packet(packet.peer, ANSWER, packet.channel, data=byte_copy(source)))
        elif packet.kind == ANSWER and packet.data is not None:
            self._answers[packet.channel] = packet.data.view(self._numbers.type)
            self.wake(("answer", packet.channel))
        else:
            raise refuse(packet.kind)

    def _unsettled(self) -> list[str]:
        return [f"waits for rank {peer} to take {n} packets" for peer, n in sorted(self._open.items()) if n]

    def _play(self, block: PlanBlock) -> Coroutine:
        for step, operation in enumerate(block.operations):
            position = Position(block.id, step, operation.op)
            try:
                yield from self._execute(position, block, operation)
            except Fault as fault:
                raise Fault(f"{position}: {fault}") from None

    def _execute(self, position: Position, block: PlanBlock, operation: PlanOperation) -> Coroutine:
        match operation.op:
            case "nop" | "flush":
                return
            case "barrier":
                yield from self._barrier(position, operation)
            case "signal" | "rlxsignal":
                self._signal(block, operation)
            case "wait" | "rlxwait":
                yield from self._wait(position, block, operation)
            case "sem_acquire" | "sem_release":
                yield from self._semaphore(position, operation)
            case "put" | "pws" | "pwsf" | "get" | "copy":
                for src, dst in zip(operation.src, operation.dst, strict=False):
                    data = yield from self._read(position, block, operation, src)
                    self._write(block, operation, dst, data)
                if operation.op in ("pws", "pwsf"):
                    self._signal(block, operation)
            case _:  # all sources, summed in order, to every target
                total: Elements | None = None
                for src in operation.src:
                    data = yield from self._read(position, block, operation, src)
                    total = data if total is None else self._numbers.combine(total, data)
                if total is None:
                    raise Fault("it has no source")
                for dst in operation.dst:
                    self._write(block, operation, dst, total)

    # -- synchronization

    def _barrier(self, position: Position, operation: PlanOperation) -> Coroutine:
        number, blocks = operation.barrier or 0, max(1, operation.blocks or 1)
        turn = self._arrived[number] // blocks
        self._arrived[number] += 1
        self.wake(("barrier", number))
        while self._arrived[number] < (turn + 1) * blocks:
            missing = (turn + 1) * blocks - self._arrived[number]
            yield Wait(("barrier", number), position, f"{missing} more thread blocks at barrier {number}")

    def _semaphore(self, position: Position, operation: PlanOperation) -> Coroutine:
        for s in operation.semaphores:
            if not 0 <= s < len(self._semaphores):
                raise Fault(f"there is no semaphore {s}")
            if operation.op == "sem_release":
                self._semaphores[s] += 1
                self.wake(("semaphore", s))
                continue
            while self._semaphores[s] < 1:
                yield Wait(("semaphore", s), position, f"semaphore {s}")
            self._semaphores[s] -= 1

    def _signal(self, block: PlanBlock, operation: PlanOperation) -> None:
        for peer, channel in self._channels(block, operation):
            self._post(Packet(peer, SIGNAL, channel))

    def _wait(self, position: Position, block: PlanBlock, operation: PlanOperation) -> Coroutine:
        for end in self._channels(block, operation):
            while not self._signals[end]:
                kind = CHANNEL_TYPES[end[1] % 2]
                yield Wait(("signal", end), position, f"a signal of rank {end[0]} on {kind} channel {end[1] // 2}")
            self._signals[end] -= 1

    def _channels(self, block: PlanBlock, operation: PlanOperation) -> list[End]:
        kind = operation.channel_type or "memory"
        try:
            return [self._ends[kind][block.channels(kind)[c]] for c in operation.channels]
        except IndexError:
            raise Fault(f"there are no {kind} channels {list(operation.channels)}") from None

    # -- data

    def _read(
        self, position: Position, block: PlanBlock, operation: PlanOperation, part: Slice
    ) -> Generator[Wait, None, Elements]:
        """A private copy of a slice, of this rank or of a peer."""
        if isinstance(part, LocalSlice):
            return self._memory.view(part.buffer, part.index, part.size, slice(None)).copy()
        peer, buffer = self._remote(block, operation, part.buffer_id)
        self._requests += 1
        ticket = self._requests
        self.send(Packet(peer, REQUEST, ticket, (buffer, part.index, part.size, 0)))
        while ticket not in self._answers:
            yield Wait(("answer", ticket), position, f"rank {peer} to answer")
        return self._answers.pop(ticket).reshape(part.size, -1)

    def _write(self, block: PlanBlock, operation: PlanOperation, part: Slice, data: Elements) -> None:
        if data.shape[0] != part.size:
            raise Fault(f"{data.shape[0]} chunks do not fit a slice of {part.size}")
        if isinstance(part, LocalSlice):
            self._memory.view(part.buffer, part.index, part.size, slice(None))[:] = data
            return
        peer, buffer = self._remote(block, operation, part.buffer_id)
        self._post(Packet(peer, PUT, 0, (buffer, part.index, part.size, 0), byte_copy(data)))

    def _post(self, packet: Packet) -> None:
        """Sends what will be acknowledged."""
        self._open[packet.peer] += 1
        self.send(packet)

    def _remote(self, block: PlanBlock, operation: PlanOperation, buffer_id: int) -> tuple[int, int]:
        """(peer, number of its buffer)."""
        buffers = block.buffers(operation.channel_type or "memory")
        if not 0 <= buffer_id < len(buffers) or buffers[buffer_id] >= len(self._gpu.remote_buffers):
            raise Fault(f"there is no remote buffer {buffer_id}")
        remote = self._gpu.remote_buffers[buffers[buffer_id]]
        return remote.rank, _BUFFERS.index(remote.buffer)


def _ends(gpu: GpuPlan, kind: ChannelType) -> list[End]:
    """The k-th channel to a peer meets the peer's k-th back."""
    count: Counter[int] = Counter()
    ends: list[End] = []
    for peer in gpu.peers(kind):
        ends.append((peer, 2 * count[peer] + CHANNEL_TYPES.index(kind)))
        count[peer] += 1
    return ends
