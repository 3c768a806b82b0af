"""The operations of one thread block of a plan in steady state.

In: its wiring, the channels and remote buffers that it can name. Out: operations in order: the handshake; for each
station a wait, the sum, puts and signals; waits for what ends here; own chunks copied home; flushes.

Sums go to peers in the same server by ``res``, which adds and puts at once; over ports a ``pws`` follows the sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from hetesynth.model.plan import (
    CHANNEL_TYPES,
    MAX_CHANNELS_OF_OPERATION,
    MAX_SLICES,
    ChannelType,
    LocalSlice,
    PlanOp,
    PlanOperation,
    RemoteSlice,
    Slice,
)
from hetesynth.model.program import Buffer, BufferSlice
from hetesynth.model.topology import Rank
from hetesynth.programs.layout import CopySlice, Layout
from hetesynth.programs.steady_state.block_shares import Place
from hetesynth.programs.steady_state.stations import Station
from hetesynth.programs.steady_state.wiring import Wiring

NOP = PlanOperation("nop")
_Named = TypeVar("_Named")


@dataclass(frozen=True)
class BlockEnds:
    """What a thread block can name. ``channels``: to another thread block, of which type and which of those of the
    block. ``buffers``: which of its remote buffers a buffer of a peer is."""

    channels: Mapping[Place, tuple[ChannelType, int]]
    buffers: Mapping[tuple[Rank, Buffer], int]


@dataclass
class BlockOperations:
    """Writes those of ``place``. ``copies``: from where the rank's own chunks stand to where they must.
    ``acquired``, ``released``: the semaphores by which shifts follow each other."""

    wiring: Wiring
    layout: Layout
    place: Place
    ends: BlockEnds
    copies: Sequence[CopySlice] = ()
    acquired: int | None = None
    released: int | None = None
    operations: list[PlanOperation] = field(default_factory=list)
    waited: dict[Place, int] = field(default_factory=dict)
    pushed: dict[int, int] = field(default_factory=dict)  # port channel -> thread, since the threads met

    def all(self) -> tuple[PlanOperation, ...]:
        """The operations in order."""
        signals = self.wiring.signals
        incoming = [far for far in self.ends.channels if (far, self.place) in signals]
        outgoing = [far for far in self.ends.channels if (self.place, far) in signals]
        self._notify("rlxsignal", "signal", incoming)
        self._notify("rlxwait", "wait", outgoing)
        if outgoing:
            self._meet()
        if self.acquired is not None:
            self._do(PlanOperation("sem_acquire", semaphores=(self.acquired,)))
            self._meet()
        for station in self.wiring.sequences[self.place]:
            self._station(station)
        ports = [far for far in outgoing if self.ends.channels[far][0] == "port"]
        if self.released is not None:
            self._flush(ports)
            self._meet()
            self._do(PlanOperation("sem_release", semaphores=(self.released,)))
        self._wait({far: signals[far, self.place] for far in incoming})
        for source, home, count in self.copies:
            whole = LocalSlice(source.buffer, source.offset, count)
            self._do(PlanOperation("copy", src=(whole,), dst=(LocalSlice(home.buffer, home.offset, count),)))
        if self.released is None:
            self._flush(ports)
        return tuple(self.operations) or (NOP,)

    # -- one station

    def _station(self, a: Station) -> None:
        if a.senders:
            awaited: dict[Place, int] = {}
            for sender in a.senders:
                far, number = self.wiring.awaited[a.name, sender]
                awaited[far] = max(number, awaited.get(far, 0))
            self._wait(awaited)
            self._meet()
        near = [r for r in a.receivers if self._kind(a, r) == "memory"]
        far_off = [r for r in a.receivers if self._kind(a, r) == "port"]
        if a.adds and a.senders:
            sent = near if not far_off and len(near) < MAX_SLICES else []
            value = self._sum(a, sent)
            if far_off or (near and not sent):
                self._meet()
        else:
            value, sent = self._value(a), []
        self._put_far(a, value, far_off)
        if near and not sent:
            self._put_near(a, value, near)
        signalled = [r for r in near if (a.name, r) in self.wiring.signalled]
        if signalled:
            self._meet()
            self._on("signal", "memory", [self._channel(a, r) for r in signalled])

    def _value(self, a: Station) -> BufferSlice:
        """What is sent on without a sum: what has come, or what the rank has from the start."""
        if a.senders:
            return self.wiring.landings[a.name, a.senders[0]]
        source = self.layout.source(a.rank, a.chunk)
        if source is None:
            raise ValueError(f"rank {a.rank} has no chunk {a.chunk}")
        return source

    def _sum(self, a: Station, sent: Sequence[Rank]) -> BufferSlice:
        """Adds up what has come; the last addition puts the sum to ``sent``."""
        landings = [self.wiring.landings[a.name, sender] for sender in a.senders]
        own = self.layout.source(a.rank, a.chunk)
        parts = landings if own is None else [own, *landings]
        home = None if a.partial else self.layout.target(a.rank, a.chunk)
        into = landings[0] if home is None else home
        while len(parts) > MAX_SLICES:
            self._add(parts[:MAX_SLICES], into)
            self._meet()
            parts = [into, *parts[MAX_SLICES:]]
        self._add(parts, into, tuple(self._there(a, r) for r in sent))
        return into

    def _add(self, parts: Sequence[BufferSlice], into: BufferSlice, sent: tuple[Slice, ...] = ()) -> None:
        src, dst = tuple(map(_one, parts)), (_one(into), *sent)
        self._do(PlanOperation("res", "memory", (), src, dst) if sent else PlanOperation("re", src=src, dst=dst))

    def _put_far(self, a: Station, value: BufferSlice, receivers: Sequence[Rank]) -> None:
        """Puts of a port channel, with the signal that follows."""
        ops: tuple[PlanOp, ...] = ("put", "pws")
        for op in ops:
            group = [r for r in receivers if ((a.name, r) in self.wiring.signalled) == (op == "pws")]
            for part in _parts(group):
                ids = [self._channel(a, r) for r in part]
                self._push(ids)
                dst = tuple(self._there(a, r) for r in part)
                self._do(PlanOperation(op, "port", tuple(ids), (_one(value),) * len(part), dst))

    def _put_near(self, a: Station, value: BufferSlice, receivers: Sequence[Rank]) -> None:
        for part in _parts(receivers):
            dst = tuple(self._there(a, r) for r in part)
            self._do(PlanOperation("put", "memory", (), (_one(value),) * len(part), dst))

    def _kind(self, a: Station, receiver: Rank) -> ChannelType:
        return self.ends.channels[self.wiring.receiving[a.name, receiver]][0]

    def _channel(self, a: Station, receiver: Rank) -> int:
        return self.ends.channels[self.wiring.receiving[a.name, receiver]][1]

    def _there(self, a: Station, receiver: Rank) -> RemoteSlice:
        """Where the value lands at ``receiver``."""
        landing = self.wiring.landings[(receiver, a.chunk, a.partial), a.rank]
        return RemoteSlice(self.ends.buffers[receiver, landing.buffer], landing.offset, 1)

    # -- what threads tell each other

    def _do(self, operation: PlanOperation) -> None:
        self.operations.append(operation)

    def _meet(self) -> None:
        """The threads of the block wait for each other."""
        self._do(NOP)
        self.pushed.clear()

    def _push(self, channels: Sequence[int]) -> None:
        """Thread i pushes to ``channels[i]``: after what other threads have pushed there."""
        if any(self.pushed.get(channel, thread) != thread for thread, channel in enumerate(channels)):
            self._meet()
        self.pushed.update((channel, thread) for thread, channel in enumerate(channels))

    def _wait(self, numbers: Mapping[Place, int]) -> None:
        """Waits until so many signals of each have come."""
        while late := [far for far, number in numbers.items() if self.waited.get(far, 0) < number]:
            for kind in CHANNEL_TYPES:
                self._on("wait", kind, self._numbers(kind, late))
            for far in late:
                self.waited[far] = self.waited.get(far, 0) + 1

    def _notify(self, near: PlanOp, far: PlanOp, peers: Sequence[Place]) -> None:
        for kind in CHANNEL_TYPES:
            self._on(near if kind == "memory" else far, kind, self._numbers(kind, peers))

    def _numbers(self, kind: ChannelType, peers: Sequence[Place]) -> list[int]:
        """The channels of one type to ``peers``."""
        return [number for of, number in (self.ends.channels[peer] for peer in peers) if of == kind]

    def _on(self, op: PlanOp, kind: ChannelType, channels: Sequence[int]) -> None:
        for part in _parts(channels):
            if kind == "port" and op == "signal":
                self._push(part)
            self._do(PlanOperation(op, kind, tuple(part)))

    def _flush(self, peers: Sequence[Place]) -> None:
        for part in _parts([self.ends.channels[p][1] for p in peers]):
            self._push(part)
            self._do(PlanOperation("flush", "port", tuple(part), dst=(LocalSlice("o", 0, 1),) * len(part)))


def _one(place: BufferSlice) -> LocalSlice:
    return LocalSlice(place.buffer, place.offset, 1)


def _parts(whole: Sequence[_Named]) -> Iterator[Sequence[_Named]]:
    """As many as an operation can name, at a time."""
    for first in range(0, len(whole), MAX_CHANNELS_OF_OPERATION):
        yield whole[first : first + MAX_CHANNELS_OF_OPERATION]
