"""What thread blocks, channels and semaphores of a running MSCCL++ plan know and hold.

In: events that signals, releases and barriers pass on. Out: vector clocks (see ``memory``). Knows no data.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from hetesynth.judge.mscclpp.findings import PlanPlace
from hetesynth.judge.mscclpp.memory import Clock
from hetesynth.model.plan import ChannelType, PlanBlock
from hetesynth.model.topology import Rank


@dataclass(frozen=True, slots=True)
class Event:
    """What a signal passes on: all that ``block`` knew at the end of segment ``stamp``.

    ``puts``: (engine, number) that have arrived with it. ``relaxed``: only that kernels run.
    """

    clock: Clock
    block: int
    stamp: int
    puts: tuple[int, int] | None = None
    relaxed: bool = False


@dataclass(frozen=True, slots=True)
class PortPut:
    """A put of a port channel: who issued it, and how many signals of its segment cover it (``Order.covers``)."""

    block: int
    segment: int
    thread: int
    covered: int


@dataclass(slots=True)
class ChannelEnd:
    """One end of a channel; ``far`` is the other, ``engine`` the actor of its port puts.

    ``puts``: all issued, numbered from 1. ``turns``: how many puts and signals a thread block has pushed in a
    segment. ``sure``: of how many puts a thread of a block already knew that they go before it; of a signal's, no
    thread. ``last``: who signalled and who waited last, as (thread block, segment).
    """

    gpu: Rank
    kind: ChannelType
    channel: int = 0
    far: int | None = None
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
        """How many puts surely go before what ``thread`` of ``block`` pushes now."""
        return self._sure(block, thread, lambda put: put.thread == thread)

    def before_signal(self, block: BlockState) -> int:
        """How many puts have surely arrived with as many signals as ``block`` has given in this segment."""
        signals = self.turn(block)[1]
        return self._sure(block, None, lambda put: put.covered <= signals)

    def _sure(self, block: BlockState, thread: int | None, now: Callable[[PortPut], bool]) -> int:
        """Puts up to the first that is not known; ``now`` judges those of the segment that still runs."""
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
        """What thread block ``block`` surely learns; ``releasers``: all releases of the plan by thread block."""
        self.value -= 1
        self.acquired[block] += 1
        needed = self.acquired[block] - self.start
        if needed == sum(releasers.values()):
            return list(self.releases)
        return [self.releases[needed - 1]] if needed >= 1 and len(releasers) == 1 else []


@dataclass(slots=True, eq=False)
class BlockState:
    """A thread block while it runs.

    ``kernels``: where the entries of the GPUs begin in a vector clock. ``done``: operations finished.
    ``pending``: what single threads have learned since the threads last met. ``flushed``: by engine, up to which
    put a flush of this segment covers all, and puts that the thread which made them has flushed. ``arrived``:
    whether it stands at a barrier.
    """

    index: int
    place: PlanPlace
    code: PlanBlock
    clock: Clock
    kernels: int
    segment: int = 1
    done: int = 0
    pending: list[Event] = field(default_factory=list)
    flushed: dict[int, tuple[int, set[int]]] = field(default_factory=dict)
    arrived: bool = False

    def event(self, puts: tuple[int, int] | None = None, relaxed: bool = False) -> Event:
        """What a signal given now passes on."""
        return Event(self.clock, self.index, self.segment - 1, puts, relaxed)

    def knows_put(self, put: PortPut, now: Callable[[PortPut], bool]) -> bool:
        """Whether ``put`` was surely issued; ``now`` says so of those of this block's own running segment."""
        if put.block == self.index:
            return put.segment < self.segment or now(put)
        return bool(self.clock[put.block] >= put.segment)

    def await_puts(self, end: ChannelEnd, number: int, thread: int) -> None:
        """A flush by ``thread``: the puts of a channel up to ``number`` are known to be done, and its own."""
        before, own = self.flushed.get(end.engine, (0, set()))
        self.flushed[end.engine] = max(before, number), own
        for n, put in enumerate(end.puts[number:], number + 1):
            if (put.block, put.segment, put.thread) == (self.index, self.segment, thread):
                own.add(n)

    def meet(self) -> None:
        """The threads of the block meet: what some learned all know, and what they did is done."""
        for event in self.pending:
            self._learn(event)
        self.pending.clear()
        for engine, (complete, puts) in self.flushed.items():
            self._learn_flushed(engine, complete, puts)
        self.flushed.clear()
        self.segment += 1

    def _learn_flushed(self, engine: int, complete: int, puts: set[int]) -> None:
        """Several threads each flushed what they put: all of it up to the first put that nobody flushed."""
        complete = max(complete, int(self.clock[engine]))
        while complete + 1 in puts:
            complete += 1
        self.clock = self.clock.copy()
        self.clock[engine] = complete

    def _learn(self, event: Event) -> None:
        if event.relaxed:
            self._hear(event)
            return
        self.clock = np.maximum(self.clock, event.clock)
        self.clock[event.block] = max(event.stamp, int(self.clock[event.block]))
        if event.puts is not None:
            engine, number = event.puts
            self.clock[engine] = max(number, int(self.clock[engine]))

    def _hear(self, event: Event) -> None:
        """Learns only which kernels run."""
        self.clock = self.clock.copy()
        self.clock[self.kernels :] = np.maximum(self.clock[self.kernels :], event.clock[self.kernels :])


def meet_all(blocks: list[BlockState]) -> None:
    """A barrier: afterwards each knows what any knew."""
    for block in blocks:
        block.meet()
    clock: Clock = np.maximum.reduce([block.clock for block in blocks])
    for block in blocks:
        clock[block.index] = block.segment - 1
    for block in blocks:
        block.clock = clock
