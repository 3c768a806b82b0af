"""One GPU's part of a placement -> its thread blocks: operations, and the least synchronization that orders them.

A thread block owns the channels to some peers. A wait stands before the first phase that touches what it waits
for. A conflict with accesses since the last synchronization costs a ``nop`` inside a thread block, a ``barrier``
between them; a source that a port channel still reads costs a ``flush``. Full thread blocks hand over, through one
barrier, to successors with the same channels. Every rank takes the ticks in order, so there is no deadlock."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, takewhile
from typing import TypeVar

from hetesynth.model.plan import (
    CHANNEL_TYPES,
    MAX_BARRIERS,
    MAX_CHANNELS_OF_OPERATION,
    MAX_OPERATIONS,
    MAX_REMOTE_BUFFERS,
    ChannelType,
    LocalSlice,
    PlanBlock,
    PlanOp,
    PlanOperation,
    RemoteSlice,
)
from hetesynth.model.program import Buffer, BufferSlice
from hetesynth.model.topology import Rank
from hetesynth.programs.mscclpp.placement import PlanMessage, PlanPlacement

_Named = TypeVar("_Named")
Cells = tuple[tuple[str, int], ...]
NOP = PlanOperation("nop")
_SYNCHRONIZING = frozenset({"nop", "barrier"})
RemoteName = tuple[Rank, Buffer]
"""(peer, its buffer)."""


def in_parts(whole: Sequence[_Named]) -> Iterator[Sequence[_Named]]:
    """Yield ``whole`` in parts of as many entries as one operation can name."""
    for first in range(0, len(whole), MAX_CHANNELS_OF_OPERATION):
        yield whole[first : first + MAX_CHANNELS_OF_OPERATION]


def on_channels(op: PlanOp, kind: ChannelType, channels: Sequence[int]) -> list[PlanOperation]:
    """Return ``op`` on all ``channels``. A flush also names a target chunk for each, as kernels count those."""
    return [
        PlanOperation(op, kind, tuple(some), dst=(LocalSlice("o", 0, 1),) * len(some) if op == "flush" else ())
        for some in in_parts(channels)
    ]


def local(place: BufferSlice, count: int = 1) -> LocalSlice:
    """Return the slice of ``count`` chunks from ``place`` on."""
    return LocalSlice(place.buffer, place.offset, count)


@dataclass(slots=True)
class _Channels:
    """A thread block while operations are added to it, with all channels to ``peers``. ``segment`` counts the
    synchronizations of its threads; all thread blocks know its segments up to ``sealed``."""

    kind: ChannelType
    peers: tuple[Rank, ...]
    remote: tuple[RemoteName, ...]
    operations: list[PlanOperation] = field(default_factory=list)
    segment: int = 1
    sealed: int = 0

    def on(self, op: PlanOp, peers: Iterable[Rank]) -> list[PlanOperation]:
        """Return ``op`` on the channels to those of ``peers`` that are peers of this thread block."""
        among = set(peers)
        return on_channels(op, self.kind, [i for i, peer in enumerate(self.peers) if peer in among])

    def repeated(self, op: PlanOp, counts: Mapping[Rank, int]) -> list[PlanOperation]:
        """Return ``op`` on the channel to each peer as many times as ``counts`` says."""
        most = max((counts.get(peer, 0) for peer in self.peers), default=0)
        return [x for step in range(most) for x in self.on(op, [p for p, n in counts.items() if n > step])]


def _overtakes(before: Sequence[PlanOperation], following: Sequence[PlanOperation]) -> bool:
    """True when in ``following`` a thread signals or flushes a port channel on which another thread's put may come
    later, since no ``nop`` or ``barrier`` stands between the two. The kernel's thread i handles entry i of an
    operation; threads of a block run apart until they synchronize."""
    putters: dict[int, set[int]] = defaultdict(set)
    for operation in takewhile(lambda x: x.op not in _SYNCHRONIZING, reversed(before)):
        for thread, channel in enumerate(operation.channels if operation.op == "put" else ()):
            putters[channel].add(thread)
    for operation in takewhile(lambda x: x.op not in _SYNCHRONIZING, following):
        for thread, channel in enumerate(operation.channels):
            if operation.op == "put":
                putters[channel].add(thread)
            elif operation.op in ("signal", "flush") and putters[channel] - {thread}:
                return True
    return False


@dataclass(frozen=True, slots=True)
class _Item:
    """The operations of a thread block in a phase, and the cells of its own GPU that they touch."""

    block: int
    operations: tuple[PlanOperation, ...]
    reads: Cells = ()
    writes: Cells = ()


class _TooSmall(Exception):
    """The error that a phase does not fit into fresh thread blocks, or that the barriers are used up."""


def thread_blocks(
    placement: PlanPlacement,
    rank: Rank,
    peers: dict[ChannelType, tuple[Rank, ...]],
    remote: tuple[RemoteName, ...],
    most: Mapping[ChannelType, int],
    *,
    together: bool,
) -> tuple[PlanBlock, ...] | None:
    """The thread blocks of a rank; None when they do not fit. ``remote``: the buffers it puts into, in the order
    of the GPU's list. ``most``: how many peers share a thread block. ``together``: all waits of a tick at once,
    which takes fewer operations but holds up what need not wait."""
    assigned: list[_Channels] = []  # which own the channels, within the limits on peers and on remote buffers
    for kind in CHANNEL_TYPES:
        block = _Channels(kind, (), ())
        for peer in peers[kind]:
            more = tuple(name for name in remote if name[0] == peer)
            full = len(block.peers) >= most[kind] or len(block.remote) + len(more) > MAX_REMOTE_BUFFERS
            if block.peers and full:
                assigned.append(block)
                block = _Channels(kind, (), ())
            block.peers, block.remote = (*block.peers, peer), (*block.remote, *more)
        assigned += [block] if block.peers else []
    try:
        drafts = _Assembly(placement, rank, peers["port"], assigned or [_Channels("memory", (), ())]).run(together)
    except _TooSmall:
        return None
    blocks: list[PlanBlock] = []
    for draft in drafts:
        channels = tuple(peers[draft.kind].index(p) for p in draft.peers)
        buffers = tuple(remote.index(name) for name in draft.remote)
        reached = (channels, (), buffers, ()) if draft.kind == "memory" else ((), channels, (), buffers)
        blocks.append(PlanBlock(len(blocks), tuple(draft.operations) or (NOP,), *reached))
    return tuple(blocks)


class _Assembly:
    def __init__(
        self, placement: PlanPlacement, rank: Rank, far: tuple[Rank, ...], assigned: list[_Channels]
    ) -> None:
        self.placement, self.rank, self.assigned = placement, rank, assigned
        self.far = far  # the peers over ports
        self.finished: list[_Channels] = []
        self.barriers = 0
        self.barrier: int | None = None
        self.written: dict[tuple[str, int], tuple[int, int]] = {}
        self.read: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
        self.on_the_way: dict[tuple[str, int], set[Rank]] = defaultdict(set)
        self.unflushed: set[Rank] = set()
        self.due: list[PlanMessage] = []  # arrived, by the ticks, but not yet waited for
        self.waited: dict[Rank, int] = defaultdict(int)

    def run(self, together: bool) -> list[_Channels]:
        outgoing, incoming = self.placement.outgoing[self.rank], self.placement.incoming[self.rank]
        additions = self.placement.additions[self.rank]
        # signal to the peers that write here that the kernel runs; wait for the signals of those written to
        writers, readers = {m.src for m in incoming}, {m.dst for m in outgoing}
        for block in self.assigned:
            near = block.kind == "memory"
            block.operations += block.on("rlxsignal" if near else "signal", writers)
            block.operations += block.on("rlxwait" if near else "wait", readers)
            if not readers.isdisjoint(block.peers):
                block.operations.append(NOP)
        starts: dict[int, list[PlanMessage]] = defaultdict(list)
        ends: dict[int, list[PlanMessage]] = defaultdict(list)
        for m in outgoing:
            starts[m.start].append(m)
        for m in incoming:
            ends[m.end].append(m)
        early, late = (
            [self._item("copy", (src,), dst, count) for src, dst, count in slices]
            for slices in (self.placement.early[self.rank], self.placement.late[self.rank])
        )
        for tick in sorted(starts.keys() | ends.keys() | additions.keys()):
            self.due += ends.get(tick, [])
            if together:
                self._waits(self.due)
            for of_round in additions.get(tick, []):
                self._in_parts([self._item("re", a.sources, a.into, a.count) for a in of_round])
            self._puts(starts.get(tick, []))
            self._in_parts(early)
            early = []
        self._in_parts(early)
        self._in_parts(late)
        self._waits(self.due)
        self._phase([_Item(t, tuple(block.on("flush", self.unflushed))) for t, block in enumerate(self.assigned)])
        return [*self.finished, *self.assigned]

    # -- phases

    def _wait_for(self, items: Sequence[_Item]) -> None:
        """Wait for what ``items`` touch, and for nothing else: puts that could begin are not held up."""
        touched = {cell for item in items for cell in (*item.reads, *item.writes)}
        last: dict[Rank, int] = {}
        for m in self.due:
            if not touched.isdisjoint(self._arriving_cells([m])):
                last[m.src] = max(m.index, last.get(m.src, -1))
        if last:
            self._waits([m for m in self.due if m.index <= last.get(m.src, -1)])

    def _arriving_cells(self, messages: Sequence[PlanMessage]) -> Cells:
        return self._cells([(dst, count) for m in messages for _, dst, count in m.slices])

    def _waits(self, arriving: Sequence[PlanMessage]) -> None:
        """Wait for ``arriving``; as signals of a channel come in order, the latest message covers earlier ones."""
        due: dict[Rank, int] = {}
        for m in arriving:
            due[m.src] = max(due.get(m.src, 0), m.index + 1 - self.waited[m.src])
        items = []
        for t, block in enumerate(self.assigned):
            arrived = [m for m in arriving if m.src in block.peers]
            if arrived:
                items.append(_Item(t, tuple(block.repeated("wait", due)), writes=self._arriving_cells(arrived)))
        for peer, count in due.items():
            self.waited[peer] += max(count, 0)
        waited_for = set(arriving)
        self.due = [m for m in self.due if m not in waited_for]
        self._phase(items, by_peers=True)

    def _puts(self, leaving: Sequence[PlanMessage]) -> None:
        items = []
        for t, block in enumerate(self.assigned):
            mine = sorted((m for m in leaving if m.dst in block.peers), key=lambda m: (m.dst, m.index))
            if not mine:
                continue
            slices = [(m.dst, *copied) for m in mine for copied in m.slices]
            slices.sort(key=lambda copied: copied[1].buffer)
            puts = []
            for _, group in groupby(slices, key=lambda copied: copied[1].buffer):
                for run in in_parts(list(group)):  # all sources of an operation are in one buffer
                    channels = tuple(block.peers.index(dst) for dst, *_ in run) if block.kind == "port" else ()
                    src = tuple(local(source, count) for _, source, _, count in run)
                    ids = [block.remote.index((peer, to.buffer)) for peer, _, to, _ in run]
                    dst = tuple(RemoteSlice(i, to.offset, n) for i, (_, _, to, n) in zip(ids, run, strict=True))
                    puts.append(PlanOperation("put", block.kind, channels, src, dst))
            signals = block.repeated("signal", Counter(m.dst for m in mine))
            apart = block.kind == "memory" or _overtakes((), [*puts, *signals])
            operations = (*puts, *((NOP,) if apart else ()), *signals)
            items.append(_Item(t, operations, self._cells([(src, n) for m in mine for src, _, n in m.slices])))
        self._wait_for(items)
        self._phase(items)
        for item in items:
            self.assigned[item.block].segment += NOP in item.operations
        for m in leaving:
            if m.dst in self.far:
                self.unflushed.add(m.dst)
                for cell in self._cells([(src, count) for src, _, count in m.slices]):
                    self.on_the_way[cell].add(m.dst)

    def _item(self, op: PlanOp, sources: Sequence[BufferSlice], into: BufferSlice, count: int) -> _Item:
        """Return an operation inside the GPU, which any thread block can do, with the cells that it touches."""
        src = tuple(local(source, count) for source in sources)
        operation, reads = PlanOperation(op, src=src, dst=(local(into, count),)), [(x, count) for x in sources]
        return _Item(-1, (operation,), self._cells(reads), self._cells([(into, count)]))

    def _in_parts(self, items: list[_Item]) -> None:
        """Do each of ``items`` in a thread block that last wrote what it reads, or the one with least to do."""
        most = MAX_OPERATIONS // 2  # of a phase: the rest is for what orders them
        room = len(self.assigned) * most
        for first in range(0, len(items), room):
            self._wait_for(items[first : first + room])
            load = [0] * len(self.assigned)
            shared: list[_Item] = []
            for item in items[first : first + room]:
                writers = {self.written[c][0] for c in item.reads if c in self.written and self.written[c][0] >= 0}
                likely = sorted(writers) or range(len(self.assigned))
                block = min(likely, key=lambda t: (load[t], len(self.assigned[t].operations), t))
                if load[block] >= most:
                    block = min(range(len(self.assigned)), key=lambda t: (load[t], t))
                load[block] += 1
                shared.append(replace(item, block=block))
            self._phase(shared)

    # -- synchronization

    def _phase(self, items: list[_Item], by_peers: bool = False) -> None:
        """Append ``items`` and before them what orders them. ``by_peers``: peers made the writes."""
        if not items:
            return
        before = [[] for _ in self.assigned] if by_peers else self._ordering(items)
        added = [0] * len(self.assigned)
        for item in items:
            added[item.block] += len(item.operations)
        room = (MAX_OPERATIONS - 1 - len(block.operations) for block in self.assigned)
        if any(len(first) + n > most for first, n, most in zip(before, added, room, strict=True)):
            # all thread blocks end at one barrier, at which successors with the same channels begin
            together = PlanOperation("barrier", barrier=self._new_barrier(), blocks=2 * len(self.assigned))
            successors = [_Channels(block.kind, block.peers, block.remote, [together]) for block in self.assigned]
            for block in self.assigned:
                block.operations.append(together)
            self.finished += self.assigned
            self.assigned, self.barrier = successors, None
            self.written = dict.fromkeys(self.written, (-1, 0))
            self.read = defaultdict(dict)
            before = [[] for _ in self.assigned] if by_peers else self._ordering(items)
            if any(len(before[item.block]) + added[item.block] > MAX_OPERATIONS - 2 for item in items):
                raise _TooSmall
        for block, operations in zip(self.assigned, before, strict=True):
            block.operations += operations
            if not operations:
                continue
            if operations[-1].op == "barrier":
                block.sealed = block.segment
            block.segment += 1
            flushed = {block.peers[i] for x in operations if x.op == "flush" for i in x.channels}
            self.unflushed -= flushed
            for peers in self.on_the_way.values() if flushed else ():
                peers -= flushed
        for item in items:
            block = self.assigned[item.block]
            block.operations += item.operations
            for cell in item.reads:
                self.read[cell][item.block] = block.segment
            for cell in item.writes:
                self.written[cell] = item.block, block.segment
                self.read.pop(cell, None)

    def _ordering(self, items: list[_Item]) -> list[list[PlanOperation]]:
        """For each thread block, the operations that must stand before ``items``."""
        inside: set[int] = set()
        across = False
        flushed: set[Rank] = set()
        for item in items:
            past = [self.written[c] for c in (*item.reads, *item.writes) if c in self.written]
            past += [who for c in item.writes for who in self.read.get(c, {}).items()]
            flushed |= {peer for c in item.writes for peer in self.on_the_way.get(c, ())}
            for t, segment in past:
                if t < 0 or segment <= self.assigned[t].sealed:
                    continue
                if t != item.block:
                    across = True
                elif segment >= self.assigned[t].segment:
                    inside.add(t)
            if _overtakes(self.assigned[item.block].operations, item.operations):
                inside.add(item.block)
        before: list[list[PlanOperation]] = []
        for block in self.assigned:
            flushes = block.on("flush", flushed)
            before.append([NOP, *flushes] if _overtakes(block.operations, flushes) else flushes)
        if (across or flushed) and len(self.assigned) > 1:
            if self.barrier is None:
                self.barrier = self._new_barrier()
            for operations in before:
                operations.append(PlanOperation("barrier", barrier=self.barrier, blocks=len(self.assigned)))
        else:
            before = [
                [*operations, NOP] if operations or t in inside else [] for t, operations in enumerate(before)
            ]
        return before

    def _new_barrier(self) -> int:
        if self.barriers >= MAX_BARRIERS:
            raise _TooSmall
        self.barriers += 1
        return self.barriers - 1

    # -- pieces

    def _cells(self, parts: Sequence[tuple[BufferSlice, int]]) -> Cells:
        return tuple(
            self.placement.layout.cell(self.rank, BufferSlice(part.buffer, part.offset + i))
            for part, count in parts
            for i in range(count)
        )
