"""One GPU's part of a placement -> its thread blocks: operations, and the least synchronization that orders them.

In: the messages, additions and copies of one rank. Out: thread blocks within the limits of the runtime, or None
when they do not fit with this many peers per thread block. Knows nothing of schedules and JSON.

A thread block owns the channels to some peers and does everything with them. Work comes in phases: a tick's
additions, its puts with their signals. A wait stands before the first phase that touches what it waits for, so
that it holds up nothing else; what nobody touches is waited for last. Before each phase the accesses it makes are
compared with those since the last synchronization: a conflict inside a thread block costs a ``nop``, one between
thread blocks a ``barrier`` of all. A port channel reads its source after ``put`` returns; whoever overwrites that
source waits for a ``flush`` first.

When a thread block is full, all of them hand over, through one barrier, to successors with the same channels.

No deadlock: what is waited for in a tick was signalled in an earlier one, and every rank takes the ticks in order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hetesynth.model.plan import (
    MAX_BARRIERS,
    MAX_CHANNELS_OF_OPERATION,
    MAX_OPERATIONS,
    LocalSlice,
    PlanBlock,
    PlanOperation,
    RemoteSlice,
)
from hetesynth.model.program import BufferSlice
from hetesynth.model.topology import Rank
from hetesynth.policy import DEFAULT
from hetesynth.programs.layout import CopySlice
from hetesynth.programs.mscclpp.block_channels import (
    BlockChannels,
    Share,
    Spread,
    assign_channels,
    on_channels,
    overtakes,
)
from hetesynth.programs.mscclpp.placement import Addition, PlanMessage

Cells = tuple[tuple[str, int], ...]
NOP = PlanOperation("nop")


@dataclass(frozen=True, slots=True)
class _Item:
    """What a thread block has to do in a phase, and the cells of its own GPU that it touches."""

    block: int
    operations: tuple[PlanOperation, ...]
    reads: Cells = ()
    writes: Cells = ()


class _TooSmall(Exception):
    """A phase does not fit into fresh thread blocks, or the barriers are used up."""


def thread_blocks(
    share: Share, spread: Spread, *, together: bool = False, work: float = DEFAULT.lowering.work_per_phase
) -> tuple[PlanBlock, ...] | None:
    """The thread blocks of a rank; None when they do not fit.

    ``together``: all waits of a tick at once, which takes fewer operations but holds up what need not wait.
    ``work``: the share of a thread block's operations that additions and copies of one phase may take.
    """
    try:
        return _Assembly(share, spread, int(work * MAX_OPERATIONS)).run(together)
    except _TooSmall:
        return None


class _Assembly:
    def __init__(self, share: Share, spread: Spread, work: int) -> None:
        self.share, self.work = share, work
        self.assigned = list(assign_channels(share, spread)) or [BlockChannels("memory", (), ())]
        self.finished: list[BlockChannels] = []
        self.barriers = 0
        self.barrier: int | None = None
        self.written: dict[tuple[str, int], tuple[int, int]] = {}
        self.read: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
        self.on_the_way: dict[tuple[str, int], set[Rank]] = defaultdict(set)
        self.unflushed: set[Rank] = set()
        self.due: list[PlanMessage] = []  # arrived, by the ticks, but not yet waited for
        self.waited: dict[Rank, int] = defaultdict(int)

    def run(self, together: bool) -> tuple[PlanBlock, ...]:
        share = self.share
        self._handshake()
        starts: dict[int, list[PlanMessage]] = defaultdict(list)
        ends: dict[int, list[PlanMessage]] = defaultdict(list)
        for m in share.outgoing:
            starts[m.start].append(m)
        for m in share.incoming:
            ends[m.end].append(m)
        early = list(self._copies(share.early))
        for tick in sorted(starts.keys() | ends.keys() | share.additions.keys()):
            self.due += ends.get(tick, [])
            if together:
                self._waits(self.due)
            for additions in share.additions.get(tick, []):
                self._in_parts([self._addition(a) for a in additions])
            self._puts(starts.get(tick, []))
            self._in_parts(early)
            early = []
        self._in_parts(early)
        self._in_parts(list(self._copies(share.late)))
        self._waits(self.due)
        self._phase([_Item(t, tuple(self._flush(t))) for t in range(len(self.assigned))])
        drafts = [*self.finished, *self.assigned]
        return tuple(self._block(i, draft) for i, draft in enumerate(drafts))

    # -- phases

    def _handshake(self) -> None:
        """Signal to the peers that write here that the kernel runs; wait for the signals of those written to."""
        writers = {m.src for m in self.share.incoming}
        readers = {m.dst for m in self.share.outgoing}
        for block in self.assigned:
            near = block.kind == "memory"
            signalled = [p for p in block.peers if p in writers]
            awaited = [p for p in block.peers if p in readers]
            block.operations += on_channels("rlxsignal" if near else "signal", block, signalled)
            block.operations += on_channels("rlxwait" if near else "wait", block, awaited)
            if awaited:
                block.operations.append(NOP)

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
        """Signals of one channel come in order, so a later message's wait covers the earlier ones too."""
        due: dict[Rank, int] = {}
        for m in arriving:
            due[m.src] = max(due.get(m.src, 0), m.index + 1 - self.waited[m.src])
        items = []
        for t, block in enumerate(self.assigned):
            mine = [p for p in block.peers if due.get(p, 0) > 0]
            operations: list[PlanOperation] = []
            for step in range(max((due[p] for p in mine), default=0)):
                operations += on_channels("wait", block, [p for p in mine if due[p] > step])
            arrived = [m for m in arriving if m.src in block.peers]
            if arrived:
                items.append(_Item(t, tuple(operations), writes=self._arriving_cells(arrived)))
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
            puts = list(self._put_operations(block, mine))
            signals: list[PlanOperation] = []
            for step in range(max(sum(m.dst == p for m in mine) for p in block.peers)):
                signalled = [p for p in block.peers if sum(m.dst == p for m in mine) > step]
                signals += on_channels("signal", block, signalled)
            apart = block.kind == "memory" or overtakes((), [*puts, *signals])
            operations = [*puts, NOP, *signals] if apart else [*puts, *signals]
            reads = self._cells((src, count) for m in mine for src, _, count in m.slices)
            items.append(_Item(t, tuple(operations), reads=reads))
        self._wait_for(items)
        self._phase(items)
        for item in items:
            self.assigned[item.block].segment += NOP in item.operations
        for m in leaving:
            if self.share.kind(m.dst) == "port":
                self.unflushed.add(m.dst)
                for cell in self._cells((src, count) for src, _, count in m.slices):
                    self.on_the_way[cell].add(m.dst)

    def _put_operations(self, block: BlockChannels, mine: Sequence[PlanMessage]) -> Iterator[PlanOperation]:
        """At most eight slices an operation; all sources of one are in one buffer."""
        slices = [(m.dst, *copied) for m in mine for copied in m.slices]
        slices.sort(key=lambda copied: copied[1].buffer)
        for run in _runs(slices, MAX_CHANNELS_OF_OPERATION):
            yield PlanOperation(
                "put",
                block.kind,
                tuple(block.peers.index(dst) for dst, *_ in run) if block.kind == "port" else (),
                tuple(LocalSlice(src.buffer, src.offset, count) for _, src, _, count in run),
                tuple(
                    RemoteSlice(block.remote.index((dst, to.buffer)), to.offset, count)
                    for dst, _, to, count in run
                ),
            )

    def _addition(self, addition: Addition) -> _Item:
        reads = self._cells((source, addition.count) for source in addition.sources)
        writes = self._cells([(addition.into, addition.count)])
        operation = PlanOperation(
            "re",
            src=tuple(LocalSlice(s.buffer, s.offset, addition.count) for s in addition.sources),
            dst=(LocalSlice(addition.into.buffer, addition.into.offset, addition.count),),
        )
        return _Item(-1, (operation,), reads, writes)

    def _copies(self, slices: Sequence[CopySlice]) -> Iterator[_Item]:
        for src, dst, count in slices:
            operation = PlanOperation(
                "copy",
                src=(LocalSlice(src.buffer, src.offset, count),),
                dst=(LocalSlice(dst.buffer, dst.offset, count),),
            )
            yield _Item(-1, (operation,), self._cells([(src, count)]), self._cells([(dst, count)]))

    def _in_parts(self, items: list[_Item]) -> None:
        """Work of any thread block: each goes to one that touched its cells last, or has least to do."""
        room = len(self.assigned) * self.work
        for first in range(0, len(items), room):
            self._wait_for(items[first : first + room])
            load = [0] * len(self.assigned)
            shared: list[_Item] = []
            for item in items[first : first + room]:
                writers = {self.written[c][0] for c in item.reads if c in self.written and self.written[c][0] >= 0}
                likely = sorted(writers) or range(len(self.assigned))
                block = min(likely, key=lambda t: (load[t], len(self.assigned[t].operations), t))
                if load[block] >= self.work:
                    block = min(range(len(self.assigned)), key=lambda t: (load[t], t))
                load[block] += 1
                shared.append(_Item(block, item.operations, item.reads, item.writes))
            self._phase(shared)

    # -- synchronization

    def _phase(self, items: list[_Item], by_peers: bool = False) -> None:
        """Append ``items`` and before them what orders them. ``by_peers``: peers made the writes."""
        if not items:
            return
        before = [[] for _ in self.assigned] if by_peers else self._ordering(items)
        needed = [len(operations) for operations in before]
        for item in items:
            needed[item.block] += len(item.operations)
        if any(len(t.operations) + n > MAX_OPERATIONS - 1 for t, n in zip(self.assigned, needed, strict=True)):
            self._hand_over()
            before = [[] for _ in self.assigned] if by_peers else self._ordering(items)
            for item in items:
                needed[item.block] = sum(len(i.operations) for i in items if i.block == item.block)
                if len(before[item.block]) + needed[item.block] > MAX_OPERATIONS - 2:
                    raise _TooSmall
        for t, operations in enumerate(before):
            self._synchronized(t, operations)
        for item in items:
            self._do(item)

    def _synchronized(self, t: int, operations: list[PlanOperation]) -> None:
        block = self.assigned[t]
        block.operations += operations
        if operations and operations[-1].op == "barrier":
            block.sealed = block.segment
        if operations:
            block.segment += 1
            for p in block.peers:
                if any(x.op == "flush" and block.peers.index(p) in x.channels for x in operations):
                    self._flushed(p)

    def _flushed(self, peer: Rank) -> None:
        self.unflushed.discard(peer)
        for cell in [c for c, peers in self.on_the_way.items() if peer in peers]:
            self.on_the_way[cell].discard(peer)

    def _do(self, item: _Item) -> None:
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
            inside |= {item.block} if overtakes(self.assigned[item.block].operations, item.operations) else set()
        before: list[list[PlanOperation]] = [[] for _ in self.assigned]
        for t, block in enumerate(self.assigned):
            flushes = on_channels("flush", block, [p for p in block.peers if p in flushed])
            before[t] += [NOP, *flushes] if overtakes(block.operations, flushes) else flushes
        if (across or flushed) and len(self.assigned) > 1:
            if self.barrier is None:
                self.barrier = self._new_barrier()
            for operations in before:
                operations.append(PlanOperation("barrier", barrier=self.barrier, blocks=len(self.assigned)))
        else:
            for t in range(len(self.assigned)):
                if t in inside or before[t]:
                    before[t].append(NOP)
        return before

    def _new_barrier(self) -> int:
        if self.barriers >= MAX_BARRIERS:
            raise _TooSmall
        self.barriers += 1
        return self.barriers - 1

    def _hand_over(self) -> None:
        """All thread blocks end at one barrier, at which successors with the same channels begin."""
        together = PlanOperation("barrier", barrier=self._new_barrier(), blocks=2 * len(self.assigned))
        successors = [BlockChannels(block.kind, block.peers, block.remote, [together]) for block in self.assigned]
        for block in self.assigned:
            block.operations.append(together)
        self.finished += self.assigned
        self.assigned = successors
        self.barrier = None
        self.written = dict.fromkeys(self.written, (-1, 0))
        self.read = defaultdict(dict)

    def _flush(self, t: int) -> list[PlanOperation]:
        block = self.assigned[t]
        return on_channels("flush", block, [p for p in block.peers if p in self.unflushed])

    # -- pieces

    def _cells(self, parts: Iterator[tuple[BufferSlice, int]] | Sequence[tuple[BufferSlice, int]]) -> Cells:
        layout, rank = self.share.layout, self.share.rank
        return tuple(
            layout.cell(rank, BufferSlice(part.buffer, part.offset + i))
            for part, count in parts
            for i in range(count)
        )

    def _block(self, number: int, draft: BlockChannels) -> PlanBlock:
        channels = tuple(self.share.peers[draft.kind].index(p) for p in draft.peers)
        buffers = tuple(self.share.remote.index(name) for name in draft.remote)
        operations = tuple(draft.operations) or (NOP,)
        if draft.kind == "memory":
            return PlanBlock(number, operations, memory_channels=channels, memory_buffers=buffers)
        return PlanBlock(number, operations, port_channels=channels, port_buffers=buffers)


def _runs(
    slices: list[tuple[Rank, BufferSlice, BufferSlice, int]], longest: int
) -> Iterator[list[tuple[Rank, BufferSlice, BufferSlice, int]]]:
    run: list[tuple[Rank, BufferSlice, BufferSlice, int]] = []
    for copied in slices:
        if run and (len(run) == longest or run[0][1].buffer != copied[1].buffer):
            yield run
            run = []
        run.append(copied)
    if run:
        yield run
