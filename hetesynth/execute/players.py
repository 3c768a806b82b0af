"""One rank executing a program or a plan: thread blocks as coroutines, which run until they must wait.

Any order of running those that can go on is one that a GPU may take; by default it is the order of waking.
"""

from collections import Counter, deque
from collections.abc import Callable, Generator, Hashable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from hetesynth.execute.arithmetic import Elements
from hetesynth.execute.memory import Memory
from hetesynth.execute.outcome import Fault
from hetesynth.model.plan import (
    CHANNEL_TYPES,
    ChannelType,
    GpuPlan,
    LocalSlice,
    PlanBlock,
    PlanOperation,
    RemoteBuffer,
    Slice,
)
from hetesynth.model.program import RECEIVES, SENDS, Buffer, BufferSlice, GpuProgram, Instruction, ThreadBlock
from hetesynth.model.target import PORTABLE

Choice = Callable[[int], int]
"""Given how many coroutines or packets can go on, the index of the one that does."""


PacketKind = Literal["message", "credit", "put", "signal", "acknowledgement", "request", "answer"]


@dataclass(frozen=True, slots=True)
class Packet:
    """A message between ranks. ``place``: the part of the receiver's memory that it is about. ``data``: a copy, as
    the memory may change before the packet has left."""

    peer: int  # on sending: to; on receiving: from
    kind: PacketKind
    channel: int = 0
    place: tuple[Buffer, int, int] = ("i", 0, 0)
    data: Elements | None = None


Send = Callable[[Packet], None]


class Wait(NamedTuple):
    """The wait of a thread block. ``key``: what ends it; ``at``: the thread block and its step."""

    key: Hashable
    at: tuple[int, int]
    text: str


Work = Generator[tuple[Hashable, str], None, None]
"""A step or operation being done; it yields (what wakes it, what it waits for) where it cannot go on."""
Coroutine = Generator[Wait, None, None]


class Player:
    """A rank that executes its part of a program: coroutines, and packets from other ranks. ``choose``: the order
    of coroutines that can go on, for tests that try many.

    Subclasses give ``_blocks``, ``deliver`` and ``_unsettled``.
    """

    def __init__(self, send: Send, choose: Choice | None = None) -> None:
        self.send = send
        self._choose = choose
        self._ready = deque(_played(number, steps) for number, steps in self._blocks())
        self._live = len(self._ready)
        self._waiting: dict[Hashable, list[tuple[Coroutine, Wait]]] = {}

    def _blocks(self) -> Iterator[tuple[int, Iterator[tuple[int, str, Work]]]]:
        """Return the thread blocks by id, each with the number, the name and the work of its steps."""
        raise NotImplementedError

    def deliver(self, packet: Packet) -> None:
        """Take a packet from another rank. Packets of one rank come in the order they were sent."""
        raise NotImplementedError

    def _unsettled(self) -> list[str]:
        """Return in words what other ranks still have to take or answer."""
        raise NotImplementedError

    def advance(self) -> bool:
        """Go on until all thread blocks wait; return True if anything was done. Fault: the program is broken."""
        moved = bool(self._ready)
        while self._ready:
            if self._choose is not None:
                self._ready.rotate(-self._choose(len(self._ready)))
            coroutine = self._ready.popleft()
            wait = next(coroutine, None)
            if wait is None:
                self._live -= 1
            else:
                self._waiting.setdefault(wait.key, []).append((coroutine, wait))
        return moved

    def wake(self, key: Hashable) -> None:
        """Let the thread blocks that wait for ``key`` look again."""
        self._ready.extend(coroutine for coroutine, _ in self._waiting.pop(key, ()))

    @property
    def blocks_done(self) -> bool:
        """True if all thread blocks came to their end."""
        return not self._live

    @property
    def settled(self) -> bool:
        """True if all thread blocks came to their end and all packets of this rank were taken."""
        return self.blocks_done and not self._unsettled()

    def waits(self) -> list[str]:
        """Return what keeps this rank from ending: what each thread block waits for, else what is unsettled."""
        pending = [wait for entries in self._waiting.values() for _, wait in entries]
        return [wait.text for wait in sorted(pending, key=lambda wait: wait.at)] or self._unsettled()


def _played(block: int, steps: Iterator[tuple[int, str, Work]]) -> Coroutine:
    """Run a whole thread block, step by step; yield each wait."""
    for step, name, work in steps:
        try:
            for key, reason in work:
                text = f"thread block {block} step {step} ({name}) waits for {reason}"
                yield Wait(key, (block, step), text)
        except Fault as fault:
            raise Fault(f"thread block {block} step {step} ({name}): {fault}") from None


MAX_PACKED = PORTABLE.max_count  # chunks in one message

_READS = frozenset({"s", "rrs", "rrc", "rrcs", "cpy", "re"})
_WRITES = frozenset({"r", "rcs", "rrc", "rrcs", "cpy", "re"})

Connection = tuple[int, int]
"""(peer, channel)."""


@dataclass(frozen=True, slots=True)
class Loops:
    """The split of a chunk of ``chunk`` elements: slices of at most ``message`` elements, one loop each.

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
    """A rank of a ``Program``, executed as MSCCL's interpreter does, with real data.

    A connection is (peer, channel); it holds ``slots`` messages, counted by credits: a send waits for a free slot,
    a receive for a message, and taking a message gives the slot back. A step with hasdep publishes (loop, step)
    when it is done; a dependence waits for a published number at least as high. Chunks larger than a message make
    the whole program loop, each time over a slice of every chunk; a step with more chunks than fit a message sends
    several.
    """

    def __init__(
        self, gpu: GpuProgram, memory: Memory, loops: Loops, send: Send, choose: Choice | None = None
    ) -> None:
        self._gpu, self._memory, self._loops = gpu, memory, loops
        self._in_use: Counter[Connection] = Counter()  # slots towards a peer
        self._arrived: dict[Connection, deque[Elements]] = {}
        self._published: dict[int, tuple[int, int]] = {}
        super().__init__(send, choose)

    def _blocks(self) -> Iterator[tuple[int, Iterator[tuple[int, str, Work]]]]:
        return ((block.id, self._steps(block)) for block in self._gpu.thread_blocks)

    def _steps(self, block: ThreadBlock) -> Iterator[tuple[int, str, Work]]:
        """Yield the steps of a thread block, loop by loop over a large buffer."""
        for loop, elements in enumerate(self._loops.slices):
            for step, x in enumerate(block.instructions):
                name = f"`{x.op}`, loop {loop}" if loop else f"`{x.op}`"
                yield step, name, self._execute(block, (loop, step), x, elements)

    def deliver(self, packet: Packet) -> None:
        """Take a message, or a credit for a message that was taken."""
        connection = (packet.peer, packet.channel)
        if packet.kind == "message" and packet.data is not None:
            self._arrived.setdefault(connection, deque()).append(packet.data)
            self.wake(("message", connection))
        else:
            self._in_use[connection] -= 1
            self.wake(("slot", connection))

    def _unsettled(self) -> list[str]:
        return [
            f"sent {count} message{'s' if count > 1 else ''} on channel {channel} that rank {peer} never took"
            for (peer, channel), count in sorted(self._in_use.items())
            if count
        ]

    def _execute(self, block: ThreadBlock, at: tuple[int, int], x: Instruction, elements: slice) -> Work:
        """Execute one instruction, message by message, in the loop and step ``at``. Take a message when one is
        there and, to pass it on, a slot is free; then compute, store, send."""
        if x.depends is not None:
            other, awaited = x.depends
            while self._published.get(other, (-1, -1)) < (at[0], awaited):
                yield ("step", other), f"step {awaited} of thread block {other}"
        if x.op == "nop":
            return
        source = self._connection(block.recv_peer, block.channel, "receive from") if x.op in RECEIVES else None
        target = self._connection(block.send_peer, block.channel, "send to") if x.op in SENDS else None
        most = max(x.count, 1) if source is None and target is None else self._loops.packed
        for first in range(0, max(x.count, 1), most):
            shape = count, width = min(most, x.count - first), elements.stop - elements.start
            src = self._view(x.src, first, count, elements) if x.op in _READS else None
            dst = self._view(x.dst, first, count, elements) if x.op in _WRITES else None
            while source is not None and not self._arrived.get(source):
                yield ("message", source), f"a message from rank {source[0]} on channel {source[1]}"
            while target is not None and self._in_use[target] >= self._loops.slots:
                slots = f"to take one of {self._loops.slots} messages on channel {target[1]}"
                yield ("slot", target), f"rank {target[0]} {slots}"
            data = src
            if source is not None:
                data = self._arrived[source].popleft()
                self.send(Packet(source[0], "credit", source[1]))
                if data.size != count * width:
                    what = f"{data.size} elements on channel {source[1]}, not {count} chunks of {width} elements"
                    raise Fault(f"rank {source[0]} sent {what}")
                data = data.reshape(shape)
                if src is not None:
                    data = self._memory.numbers.combine(data, src)
            if data is None:
                raise Fault("it has nothing to move")
            if dst is not None:
                dst[:] = self._memory.numbers.combine(dst, data) if x.op == "re" else data
            if target is not None:
                self._in_use[target] += 1
                self.send(Packet(target[0], "message", target[1], data=data.copy()))
        if x.has_dependents:
            self._published[block.id] = at
            self.wake(("step", block.id))

    def _connection(self, peer: int | None, channel: int, what: str) -> Connection:
        if peer is None or not 0 <= peer < self._memory.reference.ranks or peer == self._gpu.rank:
            raise Fault(f"there is no rank to {what}")
        return peer, channel

    def _view(self, part: BufferSlice | None, first: int, count: int, elements: slice) -> Elements:
        if part is None:
            raise Fault("it names no buffer")
        return self._memory.view(part.buffer, part.offset + first, count, elements)


End = tuple[int, int]
"""A channel as both its ends name it: (peer, 2 * its number among those of its type between the two + type)."""


class PlanPlayer(Player):
    """A rank of a ``Plan``, executed as MSCCL++ does, with real data: writes into peers, signals, waits.

    A put is a packet with the address and the data; the target's rank stores it when it comes, whatever its thread
    blocks do, and packets of one rank come in order, so a signal comes after the puts before it. Reading a peer is
    a request and an answer. Every put and signal is acknowledged, so that a rank knows when all it did has
    happened. Operations of a thread block are done one after the other: a missing nop does not show here.
    """

    def __init__(self, gpu: GpuPlan, memory: Memory, send: Send, choose: Choice | None = None) -> None:
        self._gpu, self._memory = gpu, memory
        self._ends: dict[ChannelType, list[End]] = {}
        for t, kind in enumerate(CHANNEL_TYPES):  # the k-th channel to a peer meets the peer's k-th back
            peers = gpu.peers(kind)
            self._ends[kind] = [(peer, 2 * peers[:c].count(peer) + t) for c, peer in enumerate(peers)]
        self._signals: Counter[End] = Counter()
        self._open: Counter[int] = Counter()  # by peer: not yet acknowledged
        self._answers: dict[int, Elements] = {}
        self._requests = 0
        self._semaphores = list(gpu.semaphores)
        self._arrived: Counter[int] = Counter()  # at barriers, ever
        super().__init__(send, choose)

    def _blocks(self) -> Iterator[tuple[int, Iterator[tuple[int, str, Work]]]]:
        for block in self._gpu.blocks:
            steps = [(k, f"`{x.op}`", self._execute(block, x)) for k, x in enumerate(block.operations)]
            yield block.id, iter(steps)

    def deliver(self, packet: Packet) -> None:
        """Do what a peer puts, signals or requests here, or take its answer or acknowledgement."""
        if packet.kind == "put" and packet.data is not None:
            self._memory.seen_from(packet.peer, *packet.place)[:] = packet.data
            self.send(Packet(packet.peer, "acknowledgement"))
        elif packet.kind == "signal":
            end = (packet.peer, packet.channel)
            self._signals[end] += 1
            self.send(Packet(packet.peer, "acknowledgement"))
            self.wake(("signal", end))
        elif packet.kind == "request":
            source = self._memory.seen_from(packet.peer, *packet.place)
            self.send(Packet(packet.peer, "answer", packet.channel, data=source.copy()))
        elif packet.kind == "answer" and packet.data is not None:
            self._answers[packet.channel] = packet.data
            self.wake(("answer", packet.channel))
        else:
            self._open[packet.peer] -= 1

    def _unsettled(self) -> list[str]:
        return [f"waits for rank {peer} to take {n} packets" for peer, n in sorted(self._open.items()) if n]

    def _execute(self, block: PlanBlock, operation: PlanOperation) -> Work:
        match operation.op:
            case "nop" | "flush":
                return
            case "barrier":
                number, blocks = operation.barrier or 0, max(1, operation.blocks or 1)
                full = (self._arrived[number] // blocks + 1) * blocks
                self._arrived[number] += 1
                self.wake(("barrier", number))
                while self._arrived[number] < full:
                    missing = full - self._arrived[number]
                    yield ("barrier", number), f"{missing} more thread blocks at barrier {number}"
            case "signal" | "rlxsignal":
                self._signal(block, operation)
            case "wait" | "rlxwait":
                for end in self._channels(block, operation):
                    while not self._signals[end]:
                        channel = f"{CHANNEL_TYPES[end[1] % 2]} channel {end[1] // 2}"
                        yield ("signal", end), f"a signal of rank {end[0]} on {channel}"
                    self._signals[end] -= 1
            case "sem_acquire" | "sem_release":
                for s in operation.semaphores:
                    if not 0 <= s < len(self._semaphores):
                        raise Fault(f"there is no semaphore {s}")
                    while operation.op == "sem_acquire" and self._semaphores[s] < 1:
                        yield ("semaphore", s), f"semaphore {s}"
                    self._semaphores[s] += 1 if operation.op == "sem_release" else -1
                    self.wake(("semaphore", s))
            case "put" | "pws" | "pwsf" | "get" | "copy":
                for src, dst in zip(operation.src, operation.dst, strict=False):
                    data = yield from self._read(block, operation, src)
                    self._write(block, operation, dst, data)
                if operation.op in ("pws", "pwsf"):
                    self._signal(block, operation)
            case _:  # all sources, summed in order, to every target
                total: Elements | None = None
                for src in operation.src:
                    data = yield from self._read(block, operation, src)
                    total = data if total is None else self._memory.numbers.combine(total, data)
                if total is None:
                    raise Fault("it has no source")
                for dst in operation.dst:
                    self._write(block, operation, dst, total)

    def _signal(self, block: PlanBlock, operation: PlanOperation) -> None:
        for peer, channel in self._channels(block, operation):
            self._post(Packet(peer, "signal", channel))

    def _channels(self, block: PlanBlock, operation: PlanOperation) -> list[End]:
        kind = operation.channel_type or "memory"
        try:
            return [self._ends[kind][block.channels(kind)[c]] for c in operation.channels]
        except IndexError:
            raise Fault(f"there are no {kind} channels {list(operation.channels)}") from None

    def _read(
        self, block: PlanBlock, operation: PlanOperation, part: Slice
    ) -> Generator[tuple[Hashable, str], None, Elements]:
        """Return a private copy of a slice of this rank or, once the peer has answered, of a peer."""
        if isinstance(part, LocalSlice):
            return self._memory.view(part.buffer, part.index, part.size, slice(None)).copy()
        remote = self._remote(block, operation, part.buffer_id)
        self._requests += 1
        ticket = self._requests
        self.send(Packet(remote.rank, "request", ticket, (remote.buffer, part.index, part.size)))
        while ticket not in self._answers:
            yield ("answer", ticket), f"rank {remote.rank} to answer"
        return self._answers.pop(ticket)

    def _write(self, block: PlanBlock, operation: PlanOperation, part: Slice, data: Elements) -> None:
        if data.shape[0] != part.size:
            raise Fault(f"{data.shape[0]} chunks do not fit a slice of {part.size}")
        if isinstance(part, LocalSlice):
            self._memory.view(part.buffer, part.index, part.size, slice(None))[:] = data
            return
        remote = self._remote(block, operation, part.buffer_id)
        self._post(Packet(remote.rank, "put", 0, (remote.buffer, part.index, part.size), data.copy()))

    def _post(self, packet: Packet) -> None:
        """Send a packet that will be acknowledged."""
        self._open[packet.peer] += 1
        self.send(packet)

    def _remote(self, block: PlanBlock, operation: PlanOperation, buffer_id: int) -> RemoteBuffer:
        buffers = block.buffers(operation.channel_type or "memory")
        if not 0 <= buffer_id < len(buffers) or buffers[buffer_id] >= len(self._gpu.remote_buffers):
            raise Fault(f"there is no remote buffer {buffer_id}")
        return self._gpu.remote_buffers[buffers[buffer_id]]
