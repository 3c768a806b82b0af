"""Messages -> operations on buffers: where sends read and receives land, which additions and copies are made.

A value lives in its *home*: the output chunk where the rank owes it, else scratch. The first value added at a rank
lands there and the rank's own input is added; every other one lands in scratch and is added to it. A value that
must not yet overwrite what its home holds waits in scratch and is copied later."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from hetesynth.machine_code import run_kernel
from hetesynth.model.collective import Collective
from hetesynth.model.program import BUFFERS
from hetesynth.model.target import Target
from hetesynth.programs.layout import Layout, chunk_at, not_held
from hetesynth.programs.msccl.channels import Message
from hetesynth.programs.msccl.kernels import ADD, RECEIVE, SEND, Carried, Placed, Room, place

Ints = NDArray[np.int64]


def starts(lengths: Ints) -> Ints:
    """Return the places where rows of these lengths begin, and where the last one ends."""
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Operations:
    """Instructions before their thread blocks are known, rank by rank, each in order; rank r has those from
    ``first[r]`` to ``first[r + 1]``. Numbers are those of ``kernels``.

    ``message``: the message it sends, receives or adds; -1 for own-block copies. ``src`` and ``dst`` are mirrored
    for a send and its receive, so the cells (-1: none) tell what this rank touches: it reads ``count`` from
    ``read`` and from ``also``, and writes from ``write``. ``order``: its place in the total order. ``forwards``:
    the message that a receive sends on at once, or -1.
    """

    first: Ints
    op: Ints
    src: Ints
    dst: Ints
    count: Ints
    message: Ints
    forwards: Ints
    order: Ints
    read: Ints
    also: Ints
    write: Ints

    def senders(self, messages: Iterable[int]) -> Ints:
        """Return the operations that send ``messages``."""
        sending = np.flatnonzero(self.out >= 0)
        by_message = np.empty(int(self.out.max(initial=-1)) + 1, dtype=np.int64)
        by_message[self.out[sending]] = sending
        return by_message[np.fromiter(messages, np.int64)]

    @property
    def out(self) -> Ints:
        """The message that each operation sends, or -1."""
        return np.where(self.op == SEND, self.message, self.forwards)


@dataclass(frozen=True)
class Placement:
    """The operations, scratch chunks by rank, and messages whose chunks are not neighbors."""

    operations: Operations
    scratch: tuple[int, ...]
    fragmented: tuple[Message, ...]


class _Pairs:
    """The pairs (rank, chunk) that are of any use, numbered, with where their values stand at the start and must
    stand in the end (-1: nowhere)."""

    def __init__(self, layout: Layout, src: Ints, dst: Ints, chunks: Ints) -> None:
        goal = layout.collective
        self._chunks = len(goal.chunks)
        pre, post = self._owners(goal, pre=True), self._owners(goal, pre=False)
        sending, receiving = src * self._chunks + chunks, dst * self._chunks + chunks
        self.keys, numbers = np.unique(np.concatenate((sending, receiving, pre, post)), return_inverse=True)
        ends = np.cumsum([len(sending), len(receiving), len(pre)])
        self.sending, self.receiving, self.held, self.owed = np.split(numbers.astype(np.int64), ends)
        self.rank, self.chunk = self.keys // self._chunks, self.keys % self._chunks
        inputs, outputs = (
            np.array([offset(k) for k in range(self._chunks)], dtype=np.int64)
            for offset in (layout.input_offset, layout.output_offset)
        )
        self.goal = np.full(len(self.keys), -1)
        self.goal[self.owed] = 3 * outputs[self.chunk[self.owed]] + 1
        # in place, a rank that also owes what it has finds it in the output buffer, under that name
        self.width = goal.ranks * goal.chunks_per_rank
        named = [layout.cell(r, chunk_at(buffer, 0)) for r in range(goal.ranks) for buffer in BUFFERS]
        self.bases = np.array([self.width * BUFFERS.index(buffer) + offset for buffer, offset in named])
        self.start = np.full(len(self.keys), -1)
        self.start[self.held] = 3 * inputs[self.chunk[self.held]]
        both = (self.start >= 0) & (self.goal >= 0)
        both[both] = self.cells(self.rank[both], self.start[both]) == self.cells(self.rank[both], self.goal[both])
        self.start[both] = self.goal[both]

    def _owners(self, goal: Collective, *, pre: bool) -> Ints:
        rows: dict[int, Ints] = {}
        owners = goal.pre if pre else goal.post
        for ranks in owners:
            if id(ranks) not in rows:
                rows[id(ranks)] = np.array(sorted(ranks), dtype=np.int64) * self._chunks
        return np.concatenate([rows[id(ranks)] + k for k, ranks in enumerate(owners)] or [np.zeros(0, np.int64)])

    def cells(self, rank: Ints, places: Ints) -> Ints:
        """Return the cells of memory behind ``places`` of ranks."""
        cells: Ints = self.bases[3 * rank + places % 3] + places // 3
        return cells


class Placer:
    """The operations that carry out messages."""

    def __init__(self, layout: Layout, messages: Sequence[Message], target: Target) -> None:
        self.layout, self.messages, self.max_count = layout, messages, target.max_count

    def run(self) -> Placement:
        """Return the placement of all messages; if some are ``fragmented``, take them apart and place again."""
        n, ranks = len(self.messages), self.layout.collective.ranks
        src, dst, channel, start, end, wave, reduce, arrival = (
            np.fromiter(map(attrgetter(name), self.messages), np.int64, n)
            for name in ("src", "dst", "channel", "start", "end", "wave", "reduce", "arrival")
        )
        lengths = np.array([len(m.chunks) for m in self.messages], dtype=np.int64)
        chunks = np.array([k for m in self.messages for k in m.chunks], dtype=np.int64)
        of_chunk = np.repeat(np.arange(n), lengths)
        pairs = _Pairs(self.layout, src[of_chunk], dst[of_chunk], chunks)
        # the total order: within a tick values that arrive, then wave by wave sends and then receives
        zero, index = np.zeros(n, dtype=np.int64), np.arange(n)
        ticks = np.concatenate((start, np.maximum(start, arrival), end))
        waves, kinds = np.concatenate((wave, wave, zero)), np.repeat([0, 1, 2], n)
        order = np.lexsort((np.tile(index, 3), kinds, waves, kinds != 2, ticks))
        at = np.empty(3 * n, dtype=np.int64)
        at[order] = np.arange(3 * n)
        sent, received, committed = at.reshape(3, n)
        sends_first, sends = _table(pairs.sending, sent[of_chunk], len(pairs.keys))
        commits_first, commits = _table(pairs.receiving, committed[of_chunk], len(pairs.keys))
        # chunks a rank owes and has from the start, and that nothing will change: input to output
        still = (pairs.start >= 0) & (pairs.goal >= 0) & (np.diff(commits_first) == 0)
        moves = np.flatnonzero(still & (pairs.start != pairs.goal))
        moves = moves[np.lexsort((pairs.goal[moves], pairs.rank[moves]))]
        width = 2 * pairs.width
        reader = np.full(ranks * width, -1)
        has = np.flatnonzero(pairs.start >= 0)
        reader[width * pairs.rank[has] + pairs.cells(pairs.rank[has], pairs.start[has])] = has
        _, connection = np.unique(
            (dst * ranks + src) * (1 + channel.max(initial=0)) + channel, return_inverse=True
        )
        carried = Carried(
            src=src, dst=dst, connection=connection, reduce=reduce, chunks_first=starts(lengths),
            source_pair=pairs.sending, target_pair=pairs.receiving,
            events=3 * (order % max(1, n)) + order // max(1, n), ticks=ticks[order],
            received=received, committed=committed, sends_first=sends_first, sends=sends,
            commits_first=commits_first, commits=commits, bases=pairs.bases, reader=reader, cells=width,
            moves=moves, move_ranks=pairs.rank[moves], goals=pairs.goal, max_count=self.max_count,
        )  # fmt: skip

        def none(length: int) -> Ints:
            return np.full(length, -1)

        most, connections = max(len(moves), 2 * int(lengths.max(initial=0))), int(connection.max(initial=0)) + 1
        room = Room(
            pairs.start.copy(), pairs.goal.copy(), none(len(chunks)), none(len(chunks)), none(n), none(n),
            none(connections), none(n), none(most), none(most),
        )  # fmt: skip
        capacity = len(moves) + 2 * n + len(chunks)
        placed = Placed(*(none(capacity) for _ in range(7)), *map(np.zeros_like, (none(ranks), none(n), none(3))))
        placed.counts[1] = -1
        number = run_kernel(place, carried, room, placed, seconds=6e-6 * n)
        _, m, c = placed.counts.tolist()
        if m >= 0:
            raise not_held(int(start[m]), int(src[m]), int(chunks[c]))
        fragmented = tuple(self.messages[m] for m in np.flatnonzero(placed.fragmented).tolist())
        return Placement(_sorted(placed, number, pairs), tuple(placed.scratch.tolist()), fragmented)


def _table(pairs: Ints, events: Ints, number: int) -> tuple[Ints, Ints]:
    """Return the events of each pair, in order: where each row begins, and the rows."""
    return starts(np.bincount(pairs, minlength=number)), events[np.lexsort((events, pairs))]


def _sorted(placed: Placed, number: int, pairs: _Pairs) -> Operations:
    """The operations by rank and order, with the cells that they touch."""
    ranks = len(placed.scratch)
    rank = placed.rank[:number]
    by_rank = np.lexsort((placed.order[:number], rank))
    rank = rank[by_rank]
    columns = placed.op, placed.src, placed.dst, placed.count, placed.message, placed.order
    op, src, dst, count, message, order = (column[:number][by_rank] for column in columns)
    before = starts(2 * pairs.width + placed.scratch)[rank]  # the cells of earlier ranks
    sources, ends = pairs.cells(rank, src) + before, pairs.cells(rank, dst) + before
    read, also = np.where(op == RECEIVE, -1, sources), np.where(op == ADD, ends, -1)
    first, write = starts(np.bincount(rank, minlength=ranks)), np.where(op == SEND, -1, ends)
    return Operations(first, op, src, dst, count, message, np.full(number, -1), order, read, also, write)
