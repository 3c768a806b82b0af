"""Messages -> operations on buffers: where sends read and receives land, which additions and copies are made.

A value lives in its *home*: the output chunk where the rank owes it, else scratch. The first value added at a rank
lands there and the rank's own input is added; every other one lands in scratch and is added to it. A value that
must not yet overwrite what its home holds waits in scratch and is copied later."""

from collections import defaultdict
from dataclasses import dataclass
from heapq import heappop, heappush

from hetesynth.model.program import BufferSlice, Op
from hetesynth.model.target import Target
from hetesynth.model.topology import Rank
from hetesynth.programs.layout import Cell, CopySlice, Layout, chunk_at, neighbours, not_held
from hetesynth.programs.msccl.channels import Key, Message


@dataclass(frozen=True, slots=True)
class Operation:
    """An instruction before its thread block is known.

    ``message``: the message it sends, receives or adds; None for own-block copies.
    ``src`` and ``dst`` are mirrored for a send and its receive, so the cells tell what this rank touches.
    ``key``: its place in the total order. ``forwards``: the message that a receive sends on at once.
    """

    op: Op
    src: BufferSlice
    dst: BufferSlice
    count: int
    message: Message | None
    reads: tuple[Cell, ...]
    writes: tuple[Cell, ...]
    key: Key = (0, 0, 0, 0, 0)
    forwards: Message | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """Operations by rank in order, scratch chunks by rank, and messages whose chunks are not neighbours."""

    operations: tuple[tuple[Operation, ...], ...]
    scratch: tuple[int, ...]
    fragmented: tuple[Message, ...]


RankChunk = int  # rank times the number of chunks, plus chunk
_START: Key = (-1, 0, 0, 0, 0)


class Placer:
    """The operations that carry out messages."""

    def __init__(self, layout: Layout, messages: list[Message], target: Target) -> None:
        self.layout = layout
        self.messages = messages
        self.max_count = target.max_count
        self.chunks = len(layout.collective.chunks)
        self.operations: list[list[Operation]] = [[] for _ in range(layout.collective.ranks)]
        self.scratch = [0] * layout.collective.ranks
        self.fragmented: list[Message] = []
        self.held: dict[RankChunk, BufferSlice] = {}
        self.homes: dict[RankChunk, BufferSlice] = {}
        self.free_scratch: dict[tuple[Rank, Rank, int], list[BufferSlice]] = defaultdict(list)
        self.landings: dict[int, list[BufferSlice]] = {}
        self.sent: dict[int, list[BufferSlice]] = {}
        self.later: dict[int, Key] = {}
        self.settling: list[Key] = []
        self.cells: dict[Cell, tuple[Cell]] = {}
        self.send_keys = [m.send_key for m in messages]
        self.receive_keys = [m.receive_key for m in messages]
        self.commit_keys = [m.commit_key for m in messages]
        # who arrives first at each (rank, chunk), and when each value is sent on or changed
        self.first: dict[RankChunk, int] = {}
        self.sends: dict[RankChunk, list[Key]] = {}
        self.commits: dict[RankChunk, list[Key]] = {}
        for m in messages:
            commit = self.commit_keys[m.index]
            for k in m.chunks:
                at = m.dst * self.chunks + k
                self.sends.setdefault(m.src * self.chunks + k, []).append(self.send_keys[m.index])
                self.commits.setdefault(at, []).append(commit)
                first = self.first.get(at)
                if first is None or commit < self.commit_keys[first]:
                    self.first[at] = m.index
        self.reader_of: dict[tuple[Rank, Cell], list[int]] = defaultdict(list)
        for k, holders in enumerate(layout.collective.pre):
            for rank in sorted(holders):
                source = layout.source(rank, k)
                if source is not None:
                    self.held[rank * self.chunks + k] = source
                    self.reader_of[rank, layout.cell(rank, source)].append(k)

    def run(self) -> Placement:
        """All of them; when some are ``fragmented``, those must be taken apart and the placement repeated."""
        # chunks a rank owes and has from the start, and that nothing will change: input to output
        moves: dict[Rank, list[tuple[BufferSlice, BufferSlice]]] = defaultdict(list)
        for k, holders in enumerate(self.layout.collective.pre):
            for rank in holders:
                at = rank * self.chunks + k
                target = self.layout.target(rank, k)
                if target is None or at in self.first:
                    continue
                source = self.held[at]
                if not self._same(rank, source, target):
                    moves[rank].append((source, target))
        for rank in sorted(moves):
            in_order = sorted(moves[rank], key=lambda move: move[1].offset)
            self._emit_all(rank, "cpy", in_order, None, _START)
        for key in sorted([*self.send_keys, *self.receive_keys, *self.commit_keys]):
            while self.settling and self.settling[0] < key:
                self._settle(heappop(self.settling))
            m = self.messages[key[4]]
            if not key[1]:
                self._commit(m, key)
            elif not key[3]:
                sources = [self.held.get(m.src * self.chunks + k) for k in m.chunks]
                if None in sources:
                    raise not_held(m.start, m.src, m.chunks[sources.index(None)])
                self.sent[m.index] = [source for source in sources if source is not None]
            else:  # choose where it lands, and write down the send, which has to repeat it, and the receive
                landings = [self._landing(m, k) for k in m.chunks]
                waiting = landings.count(None)
                free = self.free_scratch[m.dst, m.src, m.channel]  # what was added from there is taken again
                scratch = [free.pop()] if m.reduce and waiting == 1 and free else self._scratch(m.dst, waiting)
                destinations = [scratch.pop(0) if place is None else place for place in landings]
                self.landings[m.index] = destinations
                carried = list(zip(self.sent.pop(m.index), destinations, strict=True))
                runs = list(neighbours(carried, len(carried)))
                if len(runs) != 1:
                    self.fragmented.append(m)
                self._emit(m.src, "s", runs[0], m, self.send_keys[m.index])
                self._emit(m.dst, "r", runs[0], m, key)
        while self.settling:
            self._settle(heappop(self.settling))
        operations = tuple(tuple(sorted(ops, key=lambda op: op.key)) for ops in self.operations)
        return Placement(operations, tuple(self.scratch), tuple(self.fragmented))

    def _landing(self, m: Message, k: int) -> BufferSlice | None:
        """The home when the arriving value may be written there at once; None when it must wait in scratch."""
        at = m.dst * self.chunks + k
        current, home = self.held.get(at), self._home(m.dst, k)
        first = self.first[at] == m.index
        occupied = not first or (current is not None and self._same(m.dst, current, home))
        if m.reduce and (current is not None or not first):
            return None if occupied else home
        received, counts = self.receive_keys[m.index], self.commit_keys[m.index]
        busy = occupied and any(
            received < key < counts for key in (*self.sends.get(at, ()), *self.commits.get(at, ()))
        )
        # other chunks whose input is the home's memory may be sent after this arrival: it waits for the last time
        uses = [
            key
            for other in self.reader_of.get((m.dst, self.layout.cell(m.dst, home)), ())
            if other != k
            for key in self.sends.get(m.dst * self.chunks + other, ())
            if key > received
        ]
        if uses:
            until = (max(uses)[0] + 1, 0, 0, 0, m.index)
            self.later[m.index] = max(until, self.later.get(m.index, until))
        return None if busy or uses else home

    def _commit(self, m: Message, key: Key) -> None:
        """The value counts from now on: add it, copy it home, or note where it is."""
        additions, copies = [], []
        until = self.later.get(m.index, key)
        for k, landed in zip(m.chunks, self.landings[m.index], strict=True):
            at = m.dst * self.chunks + k
            current, home = self.held.get(at), self._home(m.dst, k)
            at_home = landed == home
            if m.reduce and current is not None:
                additions.append((current if at_home else landed, home))
                self.held[at] = home
            elif at_home:
                self.held[at] = home
            elif until > key:
                self.held[at] = landed
            else:
                copies.append((landed, home))
                self.held[at] = home
        self._emit_all(m.dst, "re", additions, m, key)
        self._emit_all(m.dst, "cpy", copies, m, key)
        if until > key:
            heappush(self.settling, until)
            return
        places = self.landings.pop(m.index)
        added = len(places) == 1 and places[0].buffer == "s" and places[0] != self._home(m.dst, m.chunks[0])
        if m.reduce and added:
            self.free_scratch[m.dst, m.src, m.channel].append(places[0])

    def _settle(self, key: Key) -> None:
        """Copy home what had to wait for the last use of its home's old content."""
        m = self.messages[key[4]]
        copies = []
        for k, landed in zip(m.chunks, self.landings.pop(m.index), strict=True):
            home = self._home(m.dst, k)
            if landed != home:
                copies.append((landed, home))
                self.held[m.dst * self.chunks + k] = home
        self._emit_all(m.dst, "cpy", copies, m, key)

    def _home(self, rank: Rank, k: int) -> BufferSlice:
        target = self.layout.target(rank, k)
        if target is not None:
            return target
        at = rank * self.chunks + k
        if at not in self.homes:
            self.homes[at] = self._scratch(rank, 1)[0]
        return self.homes[at]

    def _scratch(self, rank: Rank, count: int) -> list[BufferSlice]:
        offset = self.scratch[rank]
        self.scratch[rank] += count
        return [chunk_at("s", offset + i) for i in range(count)]

    def _same(self, rank: Rank, a: BufferSlice, b: BufferSlice) -> bool:
        return self.layout.cell(rank, a) == self.layout.cell(rank, b)

    def _emit_all(
        self, rank: Rank, op: Op, moves: list[tuple[BufferSlice, BufferSlice]], m: Message | None, key: Key
    ) -> None:
        for run in neighbours(moves, self.max_count):
            self._emit(rank, op, run, m, key)

    def _emit(self, rank: Rank, op: Op, run: CopySlice, m: Message | None, key: Key) -> None:
        src, dst, count = run
        reads = () if op == "r" else self._cells(rank, src, count)
        writes = () if op == "s" else self._cells(rank, dst, count)
        if op == "re":
            reads = (*reads, *writes)
        self.operations[rank].append(Operation(op, src, dst, count, m, reads, writes, key))

    def _cells(self, rank: Rank, place: BufferSlice, count: int) -> tuple[Cell, ...]:
        if count == 1:
            cell = self.layout.cell(rank, place)
            return self.cells.setdefault(cell, (cell,))
        chunks = (BufferSlice(place.buffer, place.offset + i) for i in range(count))
        return tuple(self.layout.cell(rank, chunk) for chunk in chunks)
