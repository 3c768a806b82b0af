"""A schedule, its chunks cut into pieces -> a table of rounds.

Piece j of a transfer goes j rounds after the first, which goes ``depth`` rounds after the begin: what a round
carries then moves on in the next, and links along a tree are busy together. A rank keeps a sum in its output where
it owes it, else in scratch; what is added lands in scratch. The input is read by the copies before the first round
where the collective has a form in place, so buffers may be those of a call in place.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Literal

from hetesynth.model.problem import Problem
from hetesynth.model.program import BufferSlice
from hetesynth.model.schedule import Schedule
from hetesynth.model.table import MAX_OPERATIONS, Copy, Message, Table
from hetesynth.model.topology import Rank
from hetesynth.programs.layout import FileOptions, Layout, chunk_at, collective_in_pieces, neighbours, not_held

Order = Literal["soonest", "steps"]
"""A transfer goes in the round after what it waits for, or in the round of its step."""
ORDERS: tuple[Order, ...] = ("soonest", "steps")
Held = tuple[Rank, int]
"""A rank and a chunk."""
Slot = tuple[Held, int]
"""What stands in scratch: a chunk at a rank, from transfer -1 (its own value) or what landed with transfer i."""


def depths(problem: Problem, schedule: Schedule, order: Order) -> list[int]:
    """Return the round of every transfer's first piece. HetesynthError HS507 where one sends what is not there."""
    if order == "steps":
        steps = {start: i for i, start in enumerate(sorted({t.start for t in schedule.transfers}))}
        return [steps[t.start] for t in schedule.transfers]
    ready: dict[Held, int] = {}  # the first round in which what has come can go on
    depth: list[int] = []
    coming: list[tuple[int, Held, int]] = []
    for t in schedule.transfers:
        while coming and coming[0][0] <= t.start:
            _, there, after = heappop(coming)
            ready[there] = max(after, ready.get(there, 0))
        link = problem.arcs[t.link]
        if (link.src, t.chunk) not in ready and link.src not in problem.collective.pre[t.chunk]:
            raise not_held(t.start, link.src, t.chunk)
        depth.append(ready.get((link.src, t.chunk), 0))
        heappush(coming, (t.end, (link.dst, t.chunk), depth[-1] + 1))
    return depth


def lower_table(
    problem: Problem, schedule: Schedule, options: FileOptions, pieces: int = 1, order: Order = "soonest"
) -> Table:
    """Return the table that carries out ``schedule``."""
    goal = collective_in_pieces(problem.collective, pieces)
    first = depths(problem, schedule, order)
    rounds: dict[int, list[tuple[int, int]]] = defaultdict(list)  # (transfer, piece)
    for i, depth in enumerate(first):
        for piece in range(pieces):
            rounds[depth + piece].append((i, piece))
    places = _Places(problem, schedule, first, pieces, Layout(goal, in_place=False))
    messages: list[tuple[Message, ...]] = []
    for number in sorted(rounds):
        whole = [*_merged(places.message(i, piece) for i, piece in rounds[number])]
        messages += _bounded(whole)
    sizes = tuple((*places.layout.sizes(rank), places.scratch[rank]) for rank in range(problem.ranks))
    return Table(
        options.name,
        goal.name,
        goal.root,
        sizes,
        tuple(places.copies()),
        tuple(messages),
        options.min_bytes,
        options.max_bytes,
    )


class _Places:
    """The places of chunks at each rank. ``scratch``: chunks of scratch of each rank."""

    def __init__(
        self, problem: Problem, schedule: Schedule, first: Sequence[int], pieces: int, layout: Layout
    ) -> None:
        self.layout, self._pieces, self._transfers = layout, pieces, schedule.transfers
        self._ends = [(problem.arcs[t.link].src, problem.arcs[t.link].dst) for t in schedule.transfers]
        self._written = {(dst, t.chunk) for t, (_, dst) in zip(self._transfers, self._ends, strict=True)}
        self.scratch = [0] * problem.ranks
        self._homes: dict[Held, BufferSlice] = {}
        self._slots = self._allocated(first)

    def _allocated(self, first: Sequence[int]) -> dict[Slot, int]:
        """Return the first of each slot's ``pieces`` chunks of scratch, used again when the content has gone."""
        span: dict[Slot, tuple[int, int]] = {}
        for i, (t, (src, dst)) in enumerate(zip(self._transfers, self._ends, strict=True)):
            begin, end = first[i], first[i] + self._pieces - 1
            stays: list[tuple[Slot, int, int]] = []
            if self._fixed(dst, t.chunk) is None:
                began = -1 if self.layout.source(dst, t.chunk * self._pieces) is not None else begin
                stays.append((((dst, t.chunk), -1), began, end))
            if self._fixed(src, t.chunk) is None:
                stays.append((((src, t.chunk), -1), begin, end))
            if t.reduce:
                stays.append((((dst, t.chunk), i), begin, end))
            for slot, low, high in stays:
                old = span.get(slot, (low, high))
                span[slot] = min(low, old[0]), max(high, old[1])
        free: dict[Rank, list[int]] = defaultdict(list)
        busy: dict[Rank, list[tuple[int, int]]] = defaultdict(list)
        slots: dict[Slot, int] = {}
        for (begin, end), slot in sorted((span, slot) for slot, span in span.items()):
            rank = slot[0][0]
            while busy[rank] and busy[rank][0][0] < begin:
                heappush(free[rank], heappop(busy[rank])[1])
            if free[rank]:
                place = heappop(free[rank])
            else:
                place = self.scratch[rank]
                self.scratch[rank] += self._pieces
            slots[slot] = place
            heappush(busy[rank], (end, place))
        return slots

    def _fixed(self, rank: Rank, chunk: int) -> BufferSlice | None:
        """Return the place of a chunk's first piece in the output, or in the input if it is only sent; None if it
        is in scratch."""
        target = self.layout.target(rank, chunk * self._pieces)
        if target is None and (rank, chunk) not in self._written:
            return self.layout.source(rank, chunk * self._pieces)
        return target

    def _home(self, rank: Rank, chunk: int, piece: int) -> BufferSlice:
        """Return where a piece is kept: the pieces of a chunk one after the other."""
        first = self._homes.get((rank, chunk))
        if first is None:
            fixed = self._fixed(rank, chunk)
            first = chunk_at("s", self._slots[(rank, chunk), -1]) if fixed is None else fixed
            self._homes[rank, chunk] = first
        return chunk_at(first.buffer, first.offset + piece)

    def message(self, i: int, piece: int) -> Message:
        """Return the message of one piece of transfer ``i``."""
        t, (src, dst) = self._transfers[i], self._ends[i]
        source, home = self._home(src, t.chunk, piece), self._home(dst, t.chunk, piece)
        if not t.reduce:
            return Message(src, dst, source, home, 1)
        landing = chunk_at("s", self._slots[(dst, t.chunk), i] + piece)
        return Message(src, dst, source, landing, 1, home)

    def copies(self) -> Iterator[Copy]:
        """Yield the copies of own chunks to where they are kept."""
        for rank in range(len(self.scratch)):
            moves: list[tuple[BufferSlice, BufferSlice]] = []
            for chunk in range(len(self.layout.collective.chunks) // self._pieces):
                source = self.layout.source(rank, chunk * self._pieces)
                kept = self._fixed(rank, chunk) is not None or ((rank, chunk), -1) in self._slots
                if source is None or not kept or source == self._home(rank, chunk, 0):
                    continue
                for piece in range(self._pieces):
                    start = chunk_at(source.buffer, source.offset + piece)
                    moves.append((start, self._home(rank, chunk, piece)))
            moves.sort(key=lambda move: (move[0].buffer, move[0].offset))
            for source, target, count in neighbours(moves):
                yield Copy(rank, source, target, count)


def _merged(messages: Iterator[Message]) -> Iterator[Message]:
    """Yield ``messages``, those of a pair that follow each other in all their places as one."""

    def key(m: Message) -> tuple[Rank, Rank, str, int, str]:
        return m.src, m.dst, m.source.buffer, m.source.offset, "" if m.added is None else m.added.buffer

    last: Message | None = None
    for m in sorted(messages, key=key):
        if last is not None and _follows(last, m):
            last = Message(last.src, last.dst, last.source, last.landing, last.count + 1, last.added)
            continue
        if last is not None:
            yield last
        last = m
    if last is not None:
        yield last


def _follows(a: Message, b: Message) -> bool:
    if (a.src, a.dst) != (b.src, b.dst) or (a.added is None) != (b.added is None):
        return False
    places = [(a.source, b.source), (a.landing, b.landing)]
    if a.added is not None and b.added is not None:
        places.append((a.added, b.added))
    return all(x.buffer == y.buffer and x.offset + a.count == y.offset for x, y in places)


def _bounded(messages: Sequence[Message]) -> list[tuple[Message, ...]]:
    """Return rounds of ``messages`` in which no rank has more than ``MAX_OPERATIONS`` sends and receives."""
    parts: list[list[Message]] = []
    many: list[Counter[Rank]] = []
    for m in messages:
        part = next((i for i, of in enumerate(many) if max(of[m.src], of[m.dst]) < MAX_OPERATIONS), len(parts))
        if part == len(parts):
            parts.append([])
            many.append(Counter())
        parts[part].append(m)
        many[part].update((m.src, m.dst))
    return [*map(tuple, parts)]
