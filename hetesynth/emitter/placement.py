"""Messages -> operations on buffers: from where each send reads, where each receive lands, which additions and
copies the receiver makes.

In: messages and a layout. Out: the operations of every rank in the one order (see ``channels``), and scratch
sizes. Knows nothing of thread blocks and dependences: it says which memory every operation touches, and the
order says what it must find there.

A value lives in its *home*: the output chunk where the rank owes it, else a scratch chunk. Before anything
arrives it is read from the input, which is never written out of place. The first value added at a rank lands
in the home and the rank's own input is added to it; every other one lands in a scratch chunk and is added to
the home. A value that must not yet overwrite what its home holds (an in-place alltoall; a partial sum still
to be sent) waits in scratch and is copied later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from hetesynth.emitter.channels import Key, Message
from hetesynth.emitter.layout import Cell, Layout
from hetesynth.errors import HetesynthError
from hetesynth.model.program import BufferSlice, Op
from hetesynth.model.target import Target
from hetesynth.model.topology import Rank


@dataclass(frozen=True, slots=True)
class Operation:
    """One instruction-to-be. ``message``: the message it sends, receives or adds; None for own-block copies.

    ``src`` and ``dst`` are mirrored for a send and its receive, so the cells tell what this rank touches.
    ``key``: its place in the one order. ``forwards``: the message that a receive sends on at once.
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
    torn: tuple[Message, ...]


Held = tuple[Rank, int]  # (rank, chunk)
Run = tuple[BufferSlice, BufferSlice, int]  # (from, to, how many chunks)
_Event = tuple[Key, str]
_START: Key = (-1, 0, 0, 0, 0)


def place(layout: Layout, messages: list[Message], profile: Target) -> Placement:
    """The operations that carry out ``messages``.

    When ``torn`` is not empty, those messages must be taken apart and the placement repeated.
    """
    return _Placer(layout, messages, profile).run()


class _Placer:
    def __init__(self, layout: Layout, messages: list[Message], profile: Target) -> None:
        self.layout = layout
        self.messages = messages
        self.max_count = profile.max_count
        ranks = layout.collective.ranks
        self.operations: list[list[tuple[Key, int, Operation]]] = [[] for _ in range(ranks)]
        self.scratch = [0] * ranks
        self.torn: list[Message] = []
        self.held: dict[Held, BufferSlice] = {}
        self.homes: dict[Held, BufferSlice] = {}
        self.free_slots: dict[tuple[Rank, Rank, int], list[BufferSlice]] = defaultdict(list)
        self.landings: dict[int, list[BufferSlice]] = {}
        self.sent: dict[int, list[BufferSlice]] = {}
        self.later: dict[int, Key] = {}
        self.events: list[_Event] = []
        self._note_accesses()

    def _note_accesses(self) -> None:
        """Who arrives first at each (rank, chunk), and when each value is sent on or changed."""
        self.first: dict[Held, tuple[Key, int]] = {}
        self.sends: dict[Held, list[Key]] = defaultdict(list)
        self.commits: dict[Held, list[Key]] = defaultdict(list)
        for m in self.messages:
            for k in m.chunks:
                self.sends[m.src, k].append(m.send_key)
                self.commits[m.dst, k].append(m.commit_key)
                here = (m.dst, k)
                arrival = (m.commit_key, m.index)
                self.first[here] = min(self.first.get(here, arrival), arrival)
        self.reader_of: dict[tuple[Rank, Cell], list[int]] = defaultdict(list)
        for k, holders in enumerate(self.layout.collective.pre):
            for rank in sorted(holders):
                source = self.layout.source(rank, k)
                if source is not None:
                    self.held[rank, k] = source
                    self.reader_of[rank, self.layout.cell(rank, source)].append(k)

    def run(self) -> Placement:
        self._copy_own_blocks()
        for m in self.messages:
            self.events += [(m.send_key, "send"), (m.receive_key, "receive"), (m.commit_key, "commit")]
        heapify(self.events)
        happen = {"send": self._send, "receive": self._receive, "commit": self._commit, "settle": self._settle}
        while self.events:
            key, what = heappop(self.events)
            happen[what](self.messages[key[4]])
        in_order = (sorted(ops, key=lambda op: op[:2]) for ops in self.operations)
        operations = tuple(tuple(op for _, _, op in ops) for ops in in_order)
        return Placement(operations, tuple(self.scratch), tuple(self.torn))

    def _copy_own_blocks(self) -> None:
        """Chunks a rank owes and has from the start, and that nothing will change: input to output."""
        collective = self.layout.collective
        for rank in range(collective.ranks):
            moves = []
            for k, holders in enumerate(collective.pre):
                target = self.layout.target(rank, k)
                if rank not in holders or target is None or (rank, k) in self.first:
                    continue
                source = self.held[rank, k]
                if self.layout.cell(rank, source) != self.layout.cell(rank, target):
                    moves.append((source, target))
            for src, dst, count in _runs(sorted(moves, key=lambda move: move[1].offset), self.max_count):
                self._emit(rank, "cpy", (src, dst, count), None, _START)

    def _send(self, m: Message) -> None:
        places = []
        for k in m.chunks:
            if (m.src, k) not in self.held:
                raise HetesynthError(
                    f"step {m.start}: rank {m.src} sends chunk {k} before it holds it",
                    code="HS507",
                    help="this schedule does not verify; it cannot be lowered",
                )
            places.append(self.held[m.src, k])
        self.sent[m.index] = places

    def _receive(self, m: Message) -> None:
        """Choose where the message lands, and write down the send, which has to repeat it, and the receive."""
        landings = [self._landing(m, k) for k in m.chunks]
        waiting = [i for i, place in enumerate(landings) if place is None]
        slots = self._slots(m, len(waiting)) if waiting else []
        for i, slot in zip(waiting, slots, strict=True):
            landings[i] = slot
        chosen = [place for place in landings if place is not None]
        self.landings[m.index] = chosen
        sources = self.sent.pop(m.index)
        runs = list(_runs(list(zip(sources, chosen, strict=True)), len(chosen)))
        if len(runs) != 1:
            self.torn.append(m)
        self._emit(m.src, "s", runs[0], m, m.send_key)
        self._emit(m.dst, "r", runs[0], m, m.receive_key)

    def _landing(self, m: Message, k: int) -> BufferSlice | None:
        """The home when the arriving value may be written there at once; None when it must wait in scratch."""
        here = (m.dst, k)
        held, home = self.held.get(here), self._home(here)
        first = self.first[here][1] == m.index
        occupied = not first or (held is not None and self._same(m.dst, held, home))
        if m.reduce and (held is not None or not first):
            return None if occupied else home
        busy = occupied and any(
            m.receive_key < key < m.commit_key for key in (*self.sends[here], *self.commits[here])
        )
        until = self._foreign_use(m, k, home)
        if until is not None:
            self.later[m.index] = max(until, self.later.get(m.index, until))
        return None if busy or until is not None else home

    def _foreign_use(self, m: Message, k: int, home: BufferSlice) -> Key | None:
        """When another chunk whose input is the home's memory is sent for the last time, if after this arrival."""
        others = self.reader_of.get((m.dst, self.layout.cell(m.dst, home)), [])
        uses = [key for other in others if other != k for key in self.sends[m.dst, other] if key > m.receive_key]
        return (max(uses)[0] + 1, 0, 0, 0, m.index) if uses else None

    def _commit(self, m: Message) -> None:
        """The value counts from now on: add it, copy it home, or just know that it is there."""
        additions, copies = [], []
        for k, landed in zip(m.chunks, self.landings[m.index], strict=True):
            here = (m.dst, k)
            held, home = self.held.get(here), self._home(here)
            at_home = landed == home
            if m.reduce and held is not None:
                additions.append((held if at_home else landed, home))
                self.held[here] = home
            elif at_home:
                self.held[here] = home
            elif m.index in self.later and self.later[m.index] > m.commit_key:
                self.held[here] = landed
            else:
                copies.append((landed, home))
                self.held[here] = home
        self._emit_all(m, "re", additions, m.commit_key)
        self._emit_all(m, "cpy", copies, m.commit_key)
        if m.index in self.later and self.later[m.index] > m.commit_key:
            heappush(self.events, (self.later[m.index], "settle"))
        elif m.reduce:
            self._give_back(m)

    def _settle(self, m: Message) -> None:
        """Copy home what had to wait for the last use of its home's old content."""
        copies = []
        for k, landed in zip(m.chunks, self.landings[m.index], strict=True):
            home = self._home((m.dst, k))
            if landed != home:
                copies.append((landed, home))
                self.held[m.dst, k] = home
        self._emit_all(m, "cpy", copies, self.later[m.index])

    def _home(self, here: Held) -> BufferSlice:
        rank, k = here
        target = self.layout.target(rank, k)
        if target is not None:
            return target
        if here not in self.homes:
            self.homes[here] = self._scratch(rank, 1)[0]
        return self.homes[here]

    def _slots(self, m: Message, count: int) -> list[BufferSlice]:
        """Scratch chunks for arrivals; a connection takes again those whose additions are done."""
        free = self.free_slots[m.dst, m.src, m.channel]
        if m.reduce and count == 1 and free:
            return [free.pop()]
        return self._scratch(m.dst, count)

    def _give_back(self, m: Message) -> None:
        """A message of one chunk whose slot has been added is done with the slot."""
        landed = self.landings[m.index]
        if len(landed) == 1 and landed[0].buffer == "s" and landed[0] != self._home((m.dst, m.chunks[0])):
            self.free_slots[m.dst, m.src, m.channel].append(landed[0])

    def _scratch(self, rank: Rank, count: int) -> list[BufferSlice]:
        offset = self.scratch[rank]
        self.scratch[rank] += count
        return [BufferSlice("s", offset + i) for i in range(count)]

    def _same(self, rank: Rank, a: BufferSlice, b: BufferSlice) -> bool:
        return self.layout.cell(rank, a) == self.layout.cell(rank, b)

    def _emit_all(self, m: Message, op: Op, moves: list[tuple[BufferSlice, BufferSlice]], key: Key) -> None:
        for run in _runs(moves, self.max_count):
            self._emit(m.dst, op, run, m, key)

    def _emit(self, rank: Rank, op: Op, run: Run, m: Message | None, key: Key) -> None:
        src, dst, count = run

        def cells(place: BufferSlice) -> tuple[Cell, ...]:
            return tuple(self.layout.cell(rank, BufferSlice(place.buffer, place.offset + i)) for i in range(count))

        reads = () if op == "r" else cells(src)
        writes = () if op == "s" else cells(dst)
        if op == "re":
            reads = (*reads, *writes)
        here = self.operations[rank]
        here.append((key, len(here), Operation(op, src, dst, count, m, reads, writes, key)))


def _runs(moves: list[tuple[BufferSlice, BufferSlice]], longest: int) -> Iterator[Run]:
    """Neighbouring moves together, at most ``longest`` of them: (from, to, how many)."""
    i = 0
    while i < len(moves):
        src, dst = moves[i]
        count = 1
        while i + count < len(moves) and count < longest:
            near, far = moves[i + count]
            if near != BufferSlice(src.buffer, src.offset + count) or far != BufferSlice(
                dst.buffer, dst.offset + count
            ):
                break
            count += 1
        yield src, dst, count
        i += count
