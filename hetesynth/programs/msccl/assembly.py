"""Operations -> instructions: which connections share thread blocks, what is fused, what waits for what.

The stages: pairing, fusion, scratch, thread blocks (``grouped``), dependences (``ordered``). After each the draft
says how large the program is at least, so that a plan that cannot fit is given up early; limits are checked
elsewhere.
"""

from bisect import bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np

from hetesynth.model.program import OPS, RECEIVES, Op
from hetesynth.model.target import PLAIN_OPS, Target
from hetesynth.model.topology import Rank
from hetesynth.programs.msccl.channels import Message
from hetesynth.programs.msccl.kernels import RECEIVE, SCRATCH, SEND
from hetesynth.programs.msccl.placement import Ints, Operations, Placement, starts
from hetesynth.programs.msccl.thread_blocks import (
    BlockPlan,
    Code,
    Connection,
    Connections,
    Waits,
    partners,
    reduced,
    thread_blocks,
    waits_of,
)

Fusion = Literal["forward", "add", "none"]
"""What receives do at once where the target can: they add; they send too, and their connections share a thread
block for it."""


@dataclass(frozen=True)
class Draft:
    """The operations in thread blocks, and the scratch chunks by rank. ``waits``: the dependences that values need
    and that no others imply; None: not known yet."""

    code: Code
    scratch: tuple[int, ...]
    waits: Waits | None = None

    @cached_property
    def steps(self) -> list[list[int]]:
        """The number of steps of every thread block by rank, with the nops that the waits need."""
        lengths = self.code.lengths
        if self.waits is not None:
            steps = np.maximum(1, np.diff(self.waits.first))[self.code.running]
            lengths = np.diff(np.concatenate(([0], np.cumsum(steps)))[starts(lengths)])
        return self.code.by_rank(lengths)


def grouped(
    placement: Placement,
    carried: Sequence[Message],
    fusion: Fusion,
    target: Target,
    slots: int,
    plans: Sequence[BlockPlan],
) -> Draft:
    """Return the draft of thread blocks. ``slots``: messages a connection holds; ``plans``: one for each rank."""
    operations, ops = placement.operations, PLAIN_OPS if fusion == "none" else target.ops
    traffic = Traffic(carried, slots, operations)
    connections = Connections.of(operations, carried)
    ranks, scratch = range(len(connections)), placement.scratch
    forwarded: list[Counter[tuple[Connection, Connection]]] = [Counter() for _ in ranks]
    if ops > PLAIN_OPS and fusion == "forward" and any(plan.partners is None for plan in plans):
        forwarded = [forwards(operations, rank, ops, traffic) for rank in ranks]
    counts = [operations.count[first:end].tolist() for first, end in pairwise(operations.first.tolist())]
    pairs = [partners(*of_rank, target) for of_rank in zip(counts, connections, forwarded, plans, strict=True)]
    if ops > PLAIN_OPS:
        done = [fused(operations, rank, pairs[rank], ops, traffic) for rank in ranks]
        if sum(map(len, done)) != len(operations.op):
            operations, scratch = compacted(done, len(carried), scratch)
            connections = Connections.of(operations, carried)
    blocks = [thread_blocks(*of_rank, target) for of_rank in zip(connections, pairs, plans, strict=True)]
    return Draft(Code(operations, blocks), scratch)


def ordered(draft: Draft, after: Mapping[int, int] | None = None) -> Draft:
    """Return ``draft`` with its dependences. ``after``: for a message, another one of its sender that has to be
    sent before it."""
    waits = waits_of(draft.code)
    if after:
        operations = draft.code.operations
        waits = waits.joined(operations.senders(after.keys()), operations.senders(after.values()))
    return replace(draft, waits=reduced(draft.code, waits))


# -- receives that add or forward at once
#
# An operation only moves up, to the place of a receive, where nothing it passes writes what it reads or touches
# what it writes, its connection carries its messages in order, and the FIFO holds all that is under way there. A
# sum that nobody reads again is not stored (receive-reduce-send), and its scratch is given up.

Partners = Mapping[Connection, Connection]  # receive connection -> the send connection of the same thread block
_RRC, _RRS = OPS.index("rrc"), OPS.index("rrs")
_FORWARDING: dict[bool, Op] = {False: "rcs", True: "rrcs"}  # by whether the receive adds


class Traffic:
    """The messages of each connection in order, to tell what is still under way when one is sent early.
    ``received``: the place of each receive in the total order."""

    def __init__(self, messages: Sequence[Message], slots: int, operations: Operations) -> None:
        self.slots, self.messages = slots, messages
        receives = np.flatnonzero(operations.op == RECEIVE)
        received = np.zeros(len(messages), dtype=np.int64)
        received[operations.message[receives]] = operations.order[receives]
        self.received: list[int] = received.tolist()

    @cached_property
    def previous(self) -> list[int]:
        """The message before each message on its connection, or -1."""
        last: dict[tuple[Rank, Rank, int], int] = {}
        before = []
        for m in self.messages:
            before.append(last.get((m.src, m.dst, m.channel), -1))
            last[m.src, m.dst, m.channel] = m.index
        return before

    def room(self, m: int, order: int) -> bool:
        """Return True if message ``m`` fits the FIFO when it is sent at place ``order`` of the total order."""
        under_way, before = len(self.messages[m].chunks), self.previous[m]
        while before >= 0 and self.received[before] > order:
            under_way += len(self.messages[before].chunks)
            before = self.previous[before]
        return under_way <= self.slots


@dataclass(slots=True)
class _Operation:
    """A row of ``Operations`` that may still change; ``op`` is "" once it is gone."""

    op: Op | Literal[""]
    src: int
    dst: int
    count: int
    message: int
    forwards: int
    order: int
    read: int
    also: int
    write: int

    @property
    def reads(self) -> list[int]:
        """The cells that the operation reads."""
        return [cell + i for cell in (self.read, self.also) if cell >= 0 for i in range(self.count)]

    @property
    def writes(self) -> list[int]:
        """The cells that the operation writes."""
        return [self.write + i for i in range(self.count)] if self.write >= 0 else []


def fused(
    operations: Operations, rank: Rank, partners: Partners, ops: frozenset[Op], traffic: Traffic
) -> list[_Operation]:
    """The operations of ``rank`` with all that can be fused under ``partners``; ``ops``: what the target
    executes."""
    fuser = _Fuser(operations, rank, ops, traffic)
    for i, m in fuser.receives():
        to = partners.get((m.src, m.channel))
        if to is not None:
            fuser.forward(i, to)
    return [op for op in fuser.operations if op.op]


def forwards(
    operations: Operations, rank: Rank, ops: frozenset[Op], traffic: Traffic
) -> Counter[tuple[Connection, Connection]]:
    """Return how many receives of each connection can be sent on at once, by send connection of its channel."""
    fuser = _Fuser(operations, rank, ops, traffic)
    forwarded: Counter[tuple[Connection, Connection]] = Counter()
    for i, m in fuser.receives():
        forwarded.update({((m.src, m.channel), to) for to, _ in fuser.forwardable(i)})
    return forwarded


class _Fuser:
    def __init__(self, operations: Operations, rank: Rank, ops: frozenset[Op], traffic: Traffic) -> None:
        o, (first, end) = operations, operations.first[rank : rank + 2]
        columns = (o.src, o.dst, o.count, o.message, o.forwards, o.order, o.read, o.also, o.write)
        rows = zip(*(column[first:end].tolist() for column in (o.op, *columns)), strict=True)
        self.operations = [_Operation(OPS[op], *row) for op, *row in rows]
        self.ops = ops
        self.traffic = traffic
        self.readers: dict[int, list[int]] = defaultdict(list)
        self.writers: dict[int, list[int]] = defaultdict(list)
        self.additions: dict[int, list[int]] = defaultdict(list)
        self.sends: dict[tuple[int, ...], list[int]] = defaultdict(list)
        self.sent_at: dict[int, int] = {}
        for i, op in enumerate(self.operations):
            for cell in op.reads:
                self.readers[cell].append(i)
            for cell in op.writes:
                self.writers[cell].append(i)
            if op.message < 0:
                continue
            if op.op == "re":
                self.additions[op.message].append(i)
            elif op.op == "s":
                self.sends[traffic.messages[op.message].chunks].append(i)
                self.sent_at[op.message] = op.order

    def receives(self) -> Iterator[tuple[int, Message]]:
        """Yield the receives in order, additions fused into them first, as these decide what can be forwarded."""
        for i, op in enumerate(self.operations):
            if op.op == "r" and op.message >= 0:
                self._add_at_once(i, op)
                yield i, self.traffic.messages[op.message]

    def _replace(self, i: int, op: _Operation, *gone: int) -> None:
        for j in (i, *gone):
            old = self.operations[j]
            for cell in old.reads:
                self.readers[cell].remove(j)
            for cell in old.writes:
                self.writers[cell].remove(j)
            old.op, old.read, old.also, old.write = "", -1, -1, -1
        self.operations[i] = op
        for cell in op.reads:
            insort(self.readers[cell], i)
        for cell in op.writes:
            insort(self.writers[cell], i)

    # -- adding

    def _add_at_once(self, i: int, receive: _Operation) -> None:
        """Fuse ``receive`` and its addition into a receive-reduce-copy if target and operations between allow."""
        if "rrc" not in self.ops or len(self.additions.get(receive.message, ())) != 1:
            return
        j = self.additions[receive.message][0]
        add = self.operations[j]
        if not add.op or add.count != receive.count:
            return
        if self._between(self.writers, (*add.reads, *add.writes), i, j) or self._between(
            self.readers, add.writes, i, j
        ):
            return  # it may not move up
        if add.dst == receive.dst:
            operand, read = add.src, add.read
        elif (
            add.src == receive.dst
            and not self._between(self.readers, receive.writes, i, j)
            and self._dead(receive.writes, j)
        ):  # the addition alone reads what was received
            operand, read = add.dst, add.write
        else:
            return
        self._replace(i, replace(receive, op="rrc", src=operand, dst=add.dst, read=read, write=add.write), j)

    # -- forwarding

    def forwardable(self, i: int) -> Iterator[tuple[Connection, int]]:
        """Yield (send connection, send) for each send that the receive at ``i`` could do at once."""
        receive, messages = self.operations[i], self.traffic.messages
        if not receive.op or _FORWARDING[receive.op == "rrc"] not in self.ops:
            return
        for j in self.sends.get(messages[receive.message].chunks, ()):
            send = self.operations[j]
            if j < i or not send.op:
                continue
            m = messages[send.message]
            same = (send.src, send.count) == (receive.dst, receive.count)
            if not same or m.channel != messages[receive.message].channel:
                continue
            previous = self.traffic.previous[m.index]
            in_turn = previous < 0 or self.sent_at[previous] < receive.order
            if self._between(self.writers, send.reads, i, j) or not in_turn:
                continue
            if self.traffic.room(m.index, receive.order):
                yield (m.dst, m.channel), j

    def forward(self, i: int, to: Connection) -> None:
        """Fuse the receive at ``i`` with a send on ``to``: receive-copy-send or receive-reduce-(copy-)send."""
        j = next((j for connection, j in self.forwardable(i) if connection == to), None)
        if j is None:
            return
        receive, send = self.operations[i], self.operations[j]
        self.sent_at[send.message] = receive.order
        reduces = receive.op == "rrc"
        src = receive.src if reduces else receive.dst
        whole = replace(receive, op=_FORWARDING[reduces], src=src, forwards=send.message)
        self._replace(i, whole, j)
        if reduces and "rrs" in self.ops and whole.dst % 3 == SCRATCH and self._dead(whole.writes, i):
            self._replace(i, replace(whole, op="rrs", dst=whole.src, write=-1))

    # -- what stands between

    def _between(self, accesses: dict[int, list[int]], cells: Iterable[int], i: int, j: int) -> bool:
        """Return True if ``accesses`` names an operation after ``i`` and before ``j`` for one of the cells."""
        for cell in cells:
            accessing = accesses.get(cell, ())
            at = bisect_right(accessing, i)
            if at < len(accessing) and accessing[at] < j:
                return True
        return False

    def _dead(self, cells: Iterable[int], j: int) -> bool:
        """Return True if nothing after ``j`` reads the cells before something writes them."""
        for cell in cells:
            readers, writers = self.readers.get(cell, []), self.writers.get(cell, [])
            read = bisect_right(readers, j)
            written = bisect_right(writers, j)
            if read < len(readers) and (written >= len(writers) or readers[read] <= writers[written]):
                return False
        return True


def compacted(
    ranks: Sequence[Sequence[_Operation]], messages: int, scratch: Sequence[int]
) -> tuple[Operations, tuple[int, ...]]:
    """Return the operations of every rank with no holes in scratch, and the size of scratch by rank; cells keep
    their names. Plain sends and the plain receives they meet repeat the same four fields; a fused side names the
    place really used."""
    rows = [(OPS.index(x.op), x.src, x.dst, x.count, x.message, x.forwards, x.order, x.read, x.also, x.write)
            for of_rank in ranks for x in of_rank if x.op]  # fmt: skip
    op, src, dst, count, message, forwards, order, *cells = np.array(rows, dtype=np.int64).reshape(-1, 10).T
    first = starts(np.array([len(of_rank) for of_rank in ranks]))
    # old -> new of every scratch chunk in use; neighbours stay neighbours
    before = starts(np.array(scratch))
    base = np.repeat(before[:-1], np.diff(first))
    used = np.zeros(before[-1] + 1, dtype=np.int64)
    for places, elsewhere in ((src, RECEIVE), (dst, SEND)):
        of = np.flatnonzero((op != elsewhere) & (places % 3 == SCRATCH))  # of this rank
        chunks = np.repeat(base[of] + places[of] // 3, count[of])
        used[chunks + np.arange(len(chunks)) - np.repeat(np.cumsum(count[of]) - count[of], count[of])] = 1
    new = starts(used)

    def moved(places: Ints) -> Ints:
        at = np.minimum(base + places // 3, before[-1])  # a mirrored place is of another rank
        return np.where(places % 3 == SCRATCH, 3 * (new[at] - new[base]) + SCRATCH, places)

    from_here, to_here = moved(src), moved(dst)
    left, lands = np.zeros((2, messages), dtype=np.int64)
    sends, receives = np.flatnonzero(op == SEND), np.flatnonzero(np.isin(op, _RECEIVES))
    left[message[sends]], lands[message[receives]] = from_here[sends], to_here[receives]
    on = np.flatnonzero(forwards >= 0)
    left[forwards[on]] = np.where(op == _RRS, from_here, to_here)[on]
    src = np.where(op == RECEIVE, left[message], from_here)
    dst = np.where(op == SEND, lands[message], to_here)
    return Operations(first, op, src, dst, count, message, forwards, order, *cells), tuple(
        np.diff(new[before]).tolist()
    )


_RECEIVES = [OPS.index(op) for op in sorted(RECEIVES)]
