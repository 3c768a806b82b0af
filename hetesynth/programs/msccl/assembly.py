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
from typing import Literal

from hetesynth.model.program import RECEIVES, BufferSlice, Op
from hetesynth.model.target import PLAIN_OPS, Target
from hetesynth.model.topology import Rank
from hetesynth.programs.layout import Cell, chunk_at
from hetesynth.programs.msccl.channels import Key, Message
from hetesynth.programs.msccl.placement import Operation, Placement
from hetesynth.programs.msccl.thread_blocks import (
    BlockPlan,
    Connection,
    Connections,
    RankBlocks,
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
    """The operations of every rank in thread blocks, and the scratch chunks by rank. ``waits``: by rank the
    dependences that values need and that no others imply; empty: not known yet."""

    ranks: list[RankBlocks]
    scratch: tuple[int, ...]
    waits: Sequence[Waits] = ()

    @cached_property
    def steps(self) -> list[list[int]]:
        """Of every thread block by rank, with the nops that the waits need."""
        if not self.waits:
            return [[len(block.operations) for block in rank.blocks] for rank in self.ranks]
        return [
            [sum(max(1, len(waits[i])) for i in block.operations) for block in rank.blocks]
            for rank, waits in zip(self.ranks, self.waits, strict=True)
        ]


def grouped(
    placement: Placement,
    carried: Sequence[Message],
    fusion: Fusion,
    target: Target,
    slots: int,
    plans: Sequence[BlockPlan],
) -> Draft:
    """The operations in thread blocks. ``slots``: messages a connection holds; ``plans``: one a rank."""
    placed, ops = placement.operations, PLAIN_OPS if fusion == "none" else target.ops
    traffic = Traffic(carried, slots)
    connections = [Connections.of(operations) for operations in placed]
    forwarded: list[Counter[tuple[Connection, Connection]]] = [Counter() for _ in placed]
    if ops > PLAIN_OPS and fusion == "forward":
        forwarded = [forwards(operations, ops, traffic) for operations in placed]
    pairs = [partners(*of_rank, target) for of_rank in zip(placed, connections, forwarded, plans, strict=True)]
    ranks, scratch = list(placed), placement.scratch
    if ops > PLAIN_OPS:
        done = [fused(*of_rank, ops, traffic) for of_rank in zip(placed, pairs, strict=True)]
        if list(map(len, placed)) != list(map(len, done)):
            ranks, scratch = compacted(done)
            connections = [Connections.of(operations) for operations in ranks]
    blocks = [thread_blocks(*of_rank, target) for of_rank in zip(connections, pairs, plans, strict=True)]
    return Draft(list(map(RankBlocks, ranks, blocks)), scratch)


def ordered(draft: Draft, after: Mapping[int, int] | None = None) -> Draft:
    """``draft`` with its dependences. ``after``: the message that has to be sent before another one of its
    sender."""
    return replace(draft, waits=reduced(draft.ranks, [waits_of(rank, after or {}) for rank in draft.ranks]))


# -- receives that add or forward at once
#
# An operation only moves up, to the place of a receive, where nothing it passes writes what it reads or touches
# what it writes, its connection carries its messages in order, and the FIFO holds all that is under way there. A
# sum that nobody reads again is not stored (receive-reduce-send), and its scratch is given up.

Partners = Mapping[Connection, Connection]  # receive connection -> the send connection of the same thread block
_FORWARDING: dict[bool, Op] = {False: "rcs", True: "rrcs"}  # by whether the receive adds


class Traffic:
    """Messages by connection, in order: what is still under way when another is sent early."""

    def __init__(self, messages: Sequence[Message], slots: int) -> None:
        self.slots = slots
        self._position: dict[int, int] = {}
        self._connection: dict[tuple[Rank, Rank, int], list[Message]] = defaultdict(list)
        for m in messages:
            on_connection = self._connection[m.src, m.dst, m.channel]
            self._position[m.index] = len(on_connection)
            on_connection.append(m)

    def earlier(self, m: Message) -> Iterable[Message]:
        """The messages before ``m`` on its connection, the last one first."""
        on_connection = self._connection[m.src, m.dst, m.channel]
        return reversed(on_connection[: self._position[m.index]])

    def room(self, m: Message, key: Key) -> bool:
        """True when ``m`` fits the FIFO where it is sent at ``key``."""
        under_way = len(m.chunks)
        for q in self.earlier(m):
            if q.receive_key <= key:
                break
            under_way += len(q.chunks)
        return under_way <= self.slots


def fused(
    operations: tuple[Operation, ...], partners: Partners, ops: frozenset[Op], traffic: Traffic
) -> tuple[Operation, ...]:
    """The operations with all that can be fused under ``partners``; ``ops``: what the target executes."""
    fuser = _Fuser(operations, ops, traffic)
    for i, m in fuser.receives():
        to = partners.get((m.src, m.channel))
        if to is not None:
            fuser.forward(i, to)
    return tuple(op for op in fuser.operations if op is not None)


def forwards(
    operations: tuple[Operation, ...], ops: frozenset[Op], traffic: Traffic
) -> Counter[tuple[Connection, Connection]]:
    """How many sends each receive connection could forward at once to each send connection of its channel."""
    fuser = _Fuser(operations, ops, traffic)
    forwarded: Counter[tuple[Connection, Connection]] = Counter()
    for i, m in fuser.receives():
        forwarded.update({((m.src, m.channel), to) for to, _ in fuser.forwardable(i)})
    return forwarded


class _Fuser:
    def __init__(self, operations: tuple[Operation, ...], ops: frozenset[Op], traffic: Traffic) -> None:
        self.operations: list[Operation | None] = list(operations)
        self.ops = ops
        self.traffic = traffic
        self.readers: dict[Cell, list[int]] = defaultdict(list)
        self.writers: dict[Cell, list[int]] = defaultdict(list)
        self.additions: dict[int, list[int]] = defaultdict(list)
        self.sends: dict[tuple[int, ...], list[int]] = defaultdict(list)
        self.sent_at: dict[int, Key] = {}
        for i, op in enumerate(operations):
            self._note(i, op)
            if op.message is None:
                continue
            if op.op == "re":
                self.additions[op.message.index].append(i)
            elif op.op == "s":
                self.sends[op.message.chunks].append(i)
                self.sent_at[op.message.index] = op.key

    def _note(self, i: int, op: Operation) -> None:
        for cell in op.reads:
            insort(self.readers[cell], i)
        for cell in op.writes:
            insort(self.writers[cell], i)

    def receives(self) -> Iterator[tuple[int, Message]]:
        """The receives in order, additions fused into them first, as they decide what can be forwarded."""
        for i, op in enumerate(self.operations):
            if op is not None and op.op == "r" and op.message is not None:
                self._add_at_once(i, op, op.message)
                yield i, op.message

    def _replace(self, i: int, op: Operation, *gone: int) -> None:
        for j in (i, *gone):
            old = self.operations[j]
            if old is not None:
                for cell in old.reads:
                    self.readers[cell].remove(j)
                for cell in old.writes:
                    self.writers[cell].remove(j)
                self.operations[j] = None
        self.operations[i] = op
        self._note(i, op)

    # -- adding

    def _add_at_once(self, i: int, receive: Operation, m: Message) -> None:
        """receive + addition -> receive-reduce-copy."""
        if "rrc" not in self.ops or len(self.additions.get(m.index, ())) != 1:
            return
        j = self.additions[m.index][0]
        add = self.operations[j]
        if add is None or add.count != receive.count:
            return
        if self._between(self.writers, (*add.reads, *add.writes), i, j) or self._between(
            self.readers, add.writes, i, j
        ):
            return  # it may not move up
        if add.dst == receive.dst:
            operand, reads = add.src, add.reads[: add.count]
        elif (
            add.src == receive.dst
            and not self._between(self.readers, receive.writes, i, j)
            and self._dead(receive.writes, j)
        ):  # the addition alone reads what was received
            operand, reads = add.dst, add.writes
        else:
            return
        whole = replace(receive, op="rrc", src=operand, dst=add.dst, reads=reads, writes=add.writes)
        self._replace(i, whole, j)

    # -- forwarding

    def forwardable(self, i: int) -> Iterator[tuple[Connection, int]]:
        """(send connection, send) of everything that the receive at ``i`` could send on at once."""
        receive = self.operations[i]
        if receive is None or receive.message is None or _FORWARDING[receive.op == "rrc"] not in self.ops:
            return
        for j in self.sends.get(receive.message.chunks, ()):
            send = self.operations[j]
            if j < i or send is None or send.message is None:
                continue
            same = (send.src, send.count) == (receive.dst, receive.count)
            if not same or send.message.channel != receive.message.channel:
                continue
            previous = next(iter(self.traffic.earlier(send.message)), None)
            in_turn = previous is None or self.sent_at[previous.index] < receive.key
            if self._between(self.writers, send.reads, i, j) or not in_turn:
                continue
            if self.traffic.room(send.message, receive.key):
                yield (send.message.dst, send.message.channel), j

    def forward(self, i: int, to: Connection) -> None:
        """receive (+ addition) + send -> receive-copy-send, receive-reduce-(copy-)send."""
        j = next((j for connection, j in self.forwardable(i) if connection == to), None)
        receive, send = self.operations[i], None if j is None else self.operations[j]
        if j is None or receive is None or send is None or send.message is None:
            return
        self.sent_at[send.message.index] = receive.key
        reduces = receive.op == "rrc"
        whole = replace(
            receive, op=_FORWARDING[reduces], src=receive.src if reduces else receive.dst, forwards=send.message
        )
        self._replace(i, whole, j)
        scratch = all(buffer == "s" for buffer, _ in whole.writes)
        if reduces and "rrs" in self.ops and scratch and self._dead(whole.writes, i):
            self._replace(i, replace(whole, op="rrs", dst=whole.src, writes=()))

    # -- what stands between

    def _between(self, accesses: dict[Cell, list[int]], cells: Iterable[Cell], i: int, j: int) -> bool:
        """True when an operation after ``i`` and before ``j`` makes such an access to one of the cells."""
        for cell in cells:
            accessing = accesses.get(cell, ())
            at = bisect_right(accessing, i)
            if at < len(accessing) and accessing[at] < j:
                return True
        return False

    def _dead(self, cells: Iterable[Cell], j: int) -> bool:
        """True when nothing after ``j`` reads the cells before something writes them."""
        for cell in cells:
            readers, writers = self.readers.get(cell, []), self.writers.get(cell, [])
            read = bisect_right(readers, j)
            written = bisect_right(writers, j)
            if read < len(readers) and (written >= len(writers) or readers[read] <= writers[written]):
                return False
        return True


def compacted(ranks: Sequence[tuple[Operation, ...]]) -> tuple[list[tuple[Operation, ...]], tuple[int, ...]]:
    """The operations of every rank with scratch without holes, and its size by rank; cells keep their names. Plain
    sends and the plain receives they meet repeat the same four fields; a fused side names the place really
    used."""
    offsets: list[dict[int, int]] = []  # old -> new of every scratch chunk in use; neighbours stay neighbours
    for operations in ranks:
        places = [(op.src, op.count) for op in operations if op.op != "r"]  # of this rank
        places += [(op.dst, op.count) for op in operations if op.op != "s"]
        used = {place.offset + i for place, count in places if place.buffer == "s" for i in range(count)}
        offsets.append({old: new for new, old in enumerate(sorted(used))})

    def moved(place: BufferSlice, rank: int) -> BufferSlice:
        return place if place.buffer != "s" else chunk_at("s", offsets[rank][place.offset])

    left: dict[int, BufferSlice] = {}
    lands: dict[int, BufferSlice] = {}
    for rank, operations in enumerate(ranks):
        for op in operations:
            if op.message is not None and op.op == "s":
                left[op.message.index] = moved(op.src, rank)
            elif op.message is not None and op.op in RECEIVES:
                lands[op.message.index] = moved(op.dst, rank)
            if op.forwards is not None:
                left[op.forwards.index] = moved(op.src if op.op == "rrs" else op.dst, rank)

    def rewritten(op: Operation, rank: int) -> Operation:
        index = -1 if op.message is None else op.message.index
        src = left[index] if op.op == "r" else moved(op.src, rank)
        return replace(op, src=src, dst=lands[index] if op.op == "s" else moved(op.dst, rank))

    done = [tuple(rewritten(op, rank) for op in operations) for rank, operations in enumerate(ranks)]
    return done, tuple(map(len, offsets))
