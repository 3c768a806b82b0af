"""What thread blocks, channels, semaphores and memory of a running MSCCL++ plan know and hold.

An actor is a thread block or the engine of a port channel. A vector clock has an entry for each actor, the last of
its segments (of its puts, for an engine) known to be complete, and one for each GPU, 1 when its kernel is known to
run. The operations of a thread block between two synchronizations of its threads are one segment, unordered among
themselves.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np

from hetesynth.judge.mscclpp.checks import PUTS
from hetesynth.judge.race_detection import Access, Clock, Drawn
from hetesynth.judge.rules import Place
from hetesynth.model.plan import ChannelType, PlanBlock
from hetesynth.model.topology import Rank

Push = Literal["put", "signal", "relaxed"]
Where = tuple[int, ChannelType, int]
"""(segment from 1, type of channel, index into the GPU's channels of that type)."""


@dataclass(frozen=True, slots=True)
class Event:
    """The knowledge passed on by a signal: all that ``block`` knew at the end of segment ``stamp``. ``puts``:
    (engine, number) that have arrived with it. ``relaxed``: only which kernels run, and ``reads``."""

    clock: Clock
    reads: Clock
    block: int
    stamp: int
    puts: tuple[int, int] | None = None
    relaxed: bool = False


class Packet(NamedTuple):
    """The knowledge that a packet gives its reader. ``drawn``: the reads of which its elements were made."""

    event: Event
    drawn: frozenset[Drawn]


def joined(packets: Sequence[Packet]) -> Packet:
    """Return what a packet tells that was made of ``packets``, of which the last is what its sender knew."""
    if len(packets) == 1:
        return packets[0]
    clock: Clock = np.maximum.reduce([packet.event.clock for packet in packets])
    reads: Clock = np.maximum.reduce([packet.event.reads for packet in packets])
    event = replace(packets[-1].event, clock=clock, reads=reads)
    return Packet(event, frozenset[Drawn]().union(*(packet.drawn for packet in packets)))


class PortPut(NamedTuple):
    """A put of a port channel: who issued it, and how many signals of its segment cover it (``Order.covers``)."""

    block: int
    segment: int
    thread: int
    covered: int


@dataclass(slots=True, eq=False)
class ChannelEnd:
    """An end of a channel; ``far`` is the other, ``engine`` the actor of its port puts.

    ``puts``: all issued, numbered from 1. ``turns``: how many puts and signals a thread block has pushed in a
    segment. ``sure``: how many puts a thread of a block already knew to go before it; for a signal the thread is
    None. ``last``: who signalled and who waited last, as (thread block, segment).
    """

    gpu: Rank
    kind: ChannelType
    channel: int = 0
    far: ChannelEnd | None = None
    engine: int = -1
    inbox: deque[Event] = field(default_factory=deque)
    puts: list[PortPut] = field(default_factory=list)
    turns: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    sure: dict[tuple[int, int | None], int] = field(default_factory=dict)
    last: dict[str, tuple[int, int]] = field(default_factory=dict)

    def turn(self, block: BlockState) -> list[int]:
        """[puts, signals] that ``block`` has pushed here since its threads last met."""
        return self.turns.setdefault((block.index, block.segment), [0, 0])

    def before_thread(self, block: BlockState, thread: int) -> int:
        """Return how many puts surely go before what ``thread`` of ``block`` pushes now."""
        return self._sure(block, thread, lambda put: put.thread == thread)

    def before_signal(self, block: BlockState) -> int:
        """Return how many puts surely came with as many signals as ``block`` has given in this segment."""
        signals = self.turn(block)[1]
        return self._sure(block, None, lambda put: put.covered <= signals)

    def _sure(self, block: BlockState, thread: int | None, now: Callable[[PortPut], bool]) -> int:
        """Return the number of puts before the first not known; ``now`` judges those of the running segment."""
        count = self.sure.get((block.index, thread), 0)
        while count < len(self.puts) and block.knows_put(self.puts[count], now):
            count += 1
        self.sure[block.index, thread] = count
        return count


@dataclass(slots=True)
class SemaphoreState:
    """A semaphore: its value now and at the start, what releases passed on, who acquired how often."""

    value: int
    start: int
    releases: list[Event] = field(default_factory=list)
    acquired: Counter[int] = field(default_factory=Counter)

    def acquire(self, block: int, releasers: Counter[int]) -> list[Event]:
        """Acquire; return what thread block ``block`` surely learns. ``releasers``: all releases by block."""
        self.value -= 1
        self.acquired[block] += 1
        needed = self.acquired[block] - self.start
        if needed == sum(releasers.values()):
            return list(self.releases)
        return [self.releases[needed - 1]] if needed >= 1 and len(releasers) == 1 else []


@dataclass(slots=True, eq=False)
class BlockState:
    """A thread block while it runs.

    ``kernels``: where the entries of the GPUs begin in a vector clock. ``reads``: a clock of reads alone, of which
    the block may know more than of writes. ``done``: operations finished. ``pending``: what single threads have
    learned since the threads last met. ``flushed``: by engine, up to which put a flush of this segment covers all,
    and puts that the thread which made them has flushed. ``arrived``: whether it stands at a barrier.
    """

    index: int
    place: Place
    code: PlanBlock
    clock: Clock
    kernels: int
    reads: Clock
    segment: int = 1
    done: int = 0
    pending: list[Event] = field(default_factory=list)
    flushed: dict[int, tuple[int, set[int]]] = field(default_factory=dict)
    arrived: bool = False

    @property
    def here(self) -> Place:
        """The operation that the thread block is at."""
        return Place(self.place.gpu, self.place.block, self.done)

    def access(self, actor: int, stamp: int, before: int = 0) -> Access:
        """Return the access that ``actor``, the block or the engine of a port, makes for its operation now."""
        return Access(actor, stamp, self.done, self.clock, self.index, self.segment, before, self.reads)

    def event(self, puts: tuple[int, int] | None = None, relaxed: bool = False) -> Event:
        """Return what a signal given now passes on."""
        return Event(self.clock, self.reads, self.index, self.segment - 1, puts, relaxed)

    def knows_put(self, put: PortPut, now: Callable[[PortPut], bool]) -> bool:
        """Return True if ``put`` was surely issued; ``now`` says so of those of the block's running segment."""
        if put.block == self.index:
            return put.segment < self.segment or now(put)
        return bool(self.clock[put.block] >= put.segment)

    def await_puts(self, end: ChannelEnd, number: int, thread: int) -> None:
        """Record a flush by ``thread``: puts of a channel up to ``number``, and its own, are known to be done."""
        before, own = self.flushed.get(end.engine, (0, set()))
        self.flushed[end.engine] = max(before, number), own
        for n, put in enumerate(end.puts[number:], number + 1):
            if (put.block, put.segment, put.thread) == (self.index, self.segment, thread):
                own.add(n)

    def meet(self) -> None:
        """Let the threads of the block meet: what some learned all know, and what they did is done."""
        for event in self.pending:
            seen = np.maximum(self.clock, event.clock)
            self.reads = np.maximum(self.reads, event.reads)
            self.reads[event.block] = max(event.stamp, int(self.reads[event.block]))
            if event.relaxed:  # only which kernels run
                seen[: self.kernels] = self.clock[: self.kernels]
            else:
                seen[event.block] = max(event.stamp, int(seen[event.block]))
            if event.puts is not None and not event.relaxed:
                engine, number = event.puts
                seen[engine] = max(number, int(seen[engine]))
            self.clock = seen
        self.pending.clear()
        for engine, (before, puts) in self.flushed.items():
            # several threads each flushed what they put: all of it up to the first put that nobody flushed
            complete = max(before, int(self.clock[engine]))
            while complete + 1 in puts:
                complete += 1
            self.clock = self.clock.copy()
            self.clock[engine] = complete
        self.flushed.clear()
        self.reads = np.maximum(self.reads, self.clock)
        self.segment += 1


def meet_all(blocks: list[BlockState]) -> None:
    """Let ``blocks`` meet at a barrier: afterwards each knows what any knew."""
    for block in blocks:
        block.meet()
    clock: Clock = np.maximum.reduce([block.clock for block in blocks])
    reads: Clock = np.maximum.reduce([block.reads for block in blocks])
    for block in blocks:
        clock[block.index] = reads[block.index] = block.segment - 1
    for block in blocks:
        block.clock, block.reads = clock, reads


class Order(NamedTuple):
    """The sure order of the pushes to one channel in one segment, a stretch of operations between two meetings of
    the block's threads.

    Thread i of the block handles entry i of an operation: it signals and waits on ``channel_ids[i]``, flushes
    ``channel_ids[i]`` if there is a ``dst_buff[i]``, and over port channels puts ``src_buff[i]`` to
    ``dst_buff[i]`` on ``channel_ids[i]``. What one thread pushes to a port channel stays in order. What two
    threads push without a ``nop`` or a ``barrier`` between them arrives in either order: a signal or flush may
    then overtake the put of another thread, and the receiver may take either of two signals for the first.

    ``covers``: for each put, in the order of the operations, the number of signals of this segment that must have
    arrived before the put surely has; beyond their number when only a later segment's signal says so. ``relaxed``:
    how many signals may arrive before the first that is not relaxed.
    """

    covers: tuple[int, ...]
    relaxed: int


def orders(block: PlanBlock) -> dict[Where, Order]:
    """Return the order of every channel of ``block`` in every segment in which something is pushed to it."""
    pushed: dict[Where, list[tuple[int, Push]]] = defaultdict(list)
    segment = 1
    for operation in block.operations:
        if operation.op in ("nop", "barrier"):
            segment += 1
        kind = operation.channel_type or "memory"
        channels = block.channels(kind)
        pushes: list[Push] = ["put"] if operation.op in PUTS and kind == "port" else []
        if operation.op in ("signal", "pws", "pwsf"):
            pushes.append("signal")
        if operation.op == "rlxsignal":  # the kernel has no relaxed form for ports: it signals
            pushes.append("signal" if kind == "port" else "relaxed")
        for thread, channel in enumerate(operation.channels if pushes else ()):
            pushed[segment, kind, channels[channel]] += [(thread, p) for p in pushes]
    by_place: dict[Where, Order] = {}
    for where, here in pushed.items():
        # Any order may arise in which each thread's own pushes stay in theirs. So a put comes after at most all
        # signals but those its own thread gives behind it.
        signals = sum(push != "put" for _, push in here)
        covers = []
        for i, (thread, kind_of) in enumerate(here):
            if kind_of == "put":
                covers.append(signals + 1 - sum(t == thread and p != "put" for t, p in here[i:]))
        relaxed = 0
        for thread in {t for t, _ in here}:
            own = [p for t, p in here if t == thread and p != "put"]
            relaxed += own.index("signal") if "signal" in own else len(own)
        by_place[where] = Order(tuple(covers), relaxed)
    return by_place
