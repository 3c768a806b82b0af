"""What a program moves: symbolic execution to arrivals of chunks at GPUs and their values.

In: a program that its judge found right, and its buffers. Out: a ``Flow``: every chunk that crosses from one GPU
to another, with the value it carries, and the value each rank ends with. Copies and scratch leave no trace.

A value at a rank is a sum of leaves: the rank's own input, and values that arrived. Its ``mask`` is the set of
ranks whose input it sums. Two values of one chunk with one mask are equal, whichever way they were summed.

Logical time: a message takes one tick. An instruction waits for the one before it in its thread block, for its
dependence, for its message, and a send for the last send of its connection (one message a tick) and for a slot.
These are longest paths, so they do not depend on the order of execution chosen here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from hetesynth.errors import HetesynthError
from hetesynth.model.program import (
    RECEIVES,
    SENDS,
    BufferSlice,
    GpuProgram,
    Instruction,
    Op,
    Program,
    ThreadBlock,
)
from hetesynth.model.topology import Rank
from hetesynth.programs.lifting.buffers import Buffers, Cell

_READS: frozenset[Op] = frozenset({"s", "rrs", "rrc", "rrcs", "cpy", "re"})
_WRITES: frozenset[Op] = frozenset({"r", "rcs", "rrc", "rrcs", "cpy", "re"})
OWN = -1
"""The leaf that stands for the rank's own input."""


@dataclass(frozen=True, slots=True)
class Value:
    """A sum that stood at a rank since ``ready``; ``leaves``: arrivals there, and ``OWN``."""

    chunk: int
    mask: int
    leaves: frozenset[int]
    ready: int


@dataclass(frozen=True, slots=True)
class Arrival:
    """One chunk of ``src`` that arrives at ``dst``, sent in tick ``start`` by the instruction at ``place``."""

    src: Rank
    dst: Rank
    value: Value
    start: int
    place: str


@dataclass
class Flow:
    """``arrivals[i]`` is leaf i. ``values[rank, chunk]``: every value seen there by mask, the earliest of each.
    ``final[rank, chunk]``: the mask of what the program leaves where the collective asks for the chunk."""

    arrivals: list[Arrival] = field(default_factory=list)
    values: dict[tuple[Rank, int], dict[int, Value]] = field(default_factory=dict)
    final: dict[tuple[Rank, int], int] = field(default_factory=dict)

    def keep(self, rank: Rank, value: Value) -> Value:
        """Note that ``value`` stood at ``rank``."""
        by_mask = self.values.setdefault((rank, value.chunk), {})
        if value.mask not in by_mask or value.ready < by_mask[value.mask].ready:
            by_mask[value.mask] = value
        return value

    def arrive(self, src: Rank, dst: Rank, value: Value, start: int, place: str) -> Value:
        """Note that ``value``, sent in tick ``start``, arrives; the value that does."""
        self.arrivals.append(Arrival(src, dst, value, start, place))
        leaf = frozenset((len(self.arrivals) - 1,))
        return self.keep(dst, Value(value.chunk, value.mask, leaf, start + 1))


def broken(what: str) -> HetesynthError:
    """The program is not right, so nothing can be lifted from it."""
    return HetesynthError(
        f"the program is not right: {what}", code="HS702", help="run `hetesynth verify` on it", exit_code=1
    )


def flow_of(program: Program, buffers: Buffers, slots: int) -> Flow:
    """Execute ``program``; ``slots``: messages a connection holds.

    Raises HetesynthError HS702 when it stops, reads what nothing wrote or adds what cannot be added.
    """
    return _Execution(program, buffers, slots).run()


@dataclass(slots=True)
class _Connection:
    sender: int = -1
    receiver: int = -1
    arriving: deque[tuple[list[Value], int]] = field(default_factory=deque)
    freed: deque[int] = field(default_factory=deque)
    under_way: int = 0
    sent: int = 0
    free_from: int = 0  # the tick after the last message


@dataclass(slots=True)
class _Block:
    gpu: GpuProgram
    block: ThreadBlock
    others: dict[int, int]  # thread block id of this GPU -> index
    tick: int = 0
    finished: list[int] = field(default_factory=list)  # when each instruction was done
    inbound: _Connection = field(default_factory=_Connection)
    outbound: _Connection = field(default_factory=_Connection)

    @property
    def ended(self) -> bool:
        return len(self.finished) == len(self.block.instructions)

    @property
    def place(self) -> str:
        return f"gpu {self.gpu.rank} thread block {self.block.id} step {len(self.finished)}"


class _Execution:
    def __init__(self, program: Program, buffers: Buffers, slots: int) -> None:
        self.program, self.buffers, self.slots = program, buffers, slots
        self.flow = Flow()
        self.memory: dict[tuple[Rank, Cell], Value] = {}
        for (rank, cell), k in buffers.at_start().items():
            own = Value(k, 1 << rank, frozenset((OWN,)), 0)
            self.memory[rank, cell] = self.flow.keep(rank, own)
        self.blocks: list[_Block] = []
        self.waiting: dict[int, list[int]] = {}
        self._load()

    def _load(self) -> None:
        connections: dict[tuple[Rank, Rank, int], _Connection] = {}
        for gpu in self.program.gpus:
            others = {tb.id: len(self.blocks) + i for i, tb in enumerate(gpu.thread_blocks)}
            for tb in gpu.thread_blocks:
                loaded = _Block(gpu, tb, others)
                if tb.send_peer is not None:
                    loaded.outbound = connections.setdefault((gpu.rank, tb.send_peer, tb.channel), _Connection())
                    loaded.outbound.sender = len(self.blocks)
                if tb.recv_peer is not None:
                    loaded.inbound = connections.setdefault((tb.recv_peer, gpu.rank, tb.channel), _Connection())
                    loaded.inbound.receiver = len(self.blocks)
                self.blocks.append(loaded)

    def run(self) -> Flow:
        """Thread blocks take turns until nothing moves."""
        ready = deque(range(len(self.blocks)))
        queued = set(ready)
        while ready:
            index = ready.popleft()
            queued.discard(index)
            for woken in self._advance(index):
                if woken not in queued:
                    queued.add(woken)
                    ready.append(woken)
        for block in self.blocks:
            if not block.ended:
                raise broken(f"{block.place} waits forever")
        for (rank, k), cell in self.buffers.at_end().items():
            value = self.memory.get((rank, cell))
            if value is None or value.chunk != k:
                raise broken(f"gpu {rank} does not end with chunk {k} in {cell[0]}[{cell[1]}]")
            self.flow.final[rank, k] = value.mask
        return self.flow

    def _advance(self, index: int) -> Iterator[int]:
        block = self.blocks[index]
        while not block.ended:
            x = block.block.instructions[len(block.finished)]
            if self._blocked(index, block, x):
                return
            self._execute(block, x)
            if x.has_dependents:
                yield from self.waiting.pop(index, ())
            if x.op in RECEIVES and block.inbound.sender >= 0:
                yield block.inbound.sender
            if x.op in SENDS and block.outbound.receiver >= 0:
                yield block.outbound.receiver

    def _blocked(self, index: int, block: _Block, x: Instruction) -> bool:
        if x.depends is not None:
            other = block.others.get(x.depends[0])
            if other is None:
                raise broken(f"{block.place} waits for thread block {x.depends[0]}, which does not exist")
            if self._published(other, x.depends[1]) is None:
                self.waiting.setdefault(other, []).append(index)
                return True
        if x.op in RECEIVES and not block.inbound.arriving:
            return True
        return x.op in SENDS and block.outbound.under_way >= self.slots

    def _published(self, index: int, step: int) -> int | None:
        """When a step not before ``step`` first published itself; None: not yet."""
        block = self.blocks[index]
        for s in range(step, len(block.finished)):
            if block.block.instructions[s].has_dependents:
                return block.finished[s]
        return None

    def _execute(self, block: _Block, x: Instruction) -> None:
        now, incoming = block.tick, None
        if x.depends is not None:
            now = max(now, self._published(block.others[x.depends[0]], x.depends[1]) or 0)
        if x.op in RECEIVES:
            incoming, arrived = block.inbound.arriving.popleft()
            block.inbound.under_way -= 1
            now = max(now, arrived)
        if x.op in SENDS:
            slot = block.outbound.freed.popleft() if block.outbound.sent >= self.slots else 0
            now = max(now, block.outbound.free_from, slot)
        outgoing = self._move(block, x, incoming) if x.op != "nop" else []
        if x.op in RECEIVES:
            block.inbound.freed.append(now)
        if x.op in SENDS:
            self._send(block, outgoing, now)
        block.tick = now
        block.finished.append(now)

    def _send(self, block: _Block, values: list[Value], now: int) -> None:
        peer = block.block.send_peer
        if peer is None:
            raise broken(f"{block.place} has no peer to send to")
        arriving = [self.flow.arrive(block.gpu.rank, peer, value, now, block.place) for value in values]
        block.outbound.arriving.append((arriving, now + 1))
        block.outbound.under_way += 1
        block.outbound.sent += 1
        block.outbound.free_from = now + 1

    def _move(self, block: _Block, x: Instruction, incoming: list[Value] | None) -> list[Value]:
        """Reads, adds, writes; what a sending instruction sends."""
        data = incoming or []
        if x.op in _READS:
            read = self._read(block, x.src, x.count)
            data = self._added(block, data, read) if incoming is not None else read
        if x.op == "re":
            data = self._added(block, self._read(block, x.dst, x.count), data)
        if x.op in _WRITES:
            for cell, value in zip(self._cells(block, x.dst, x.count), data, strict=True):
                self.memory[block.gpu.rank, cell] = value
        return data

    def _cells(self, block: _Block, part: BufferSlice | None, count: int) -> list[Cell]:
        if part is None:
            raise broken(f"{block.place} names no chunk")
        return [self.buffers.cell(block.gpu.rank, part.buffer, part.offset + i) for i in range(count)]

    def _read(self, block: _Block, part: BufferSlice | None, count: int) -> list[Value]:
        values = [self.memory.get((block.gpu.rank, cell)) for cell in self._cells(block, part, count)]
        if None in values:
            raise broken(f"{block.place} reads what nothing has written")
        return [value for value in values if value is not None]

    def _added(self, block: _Block, first: list[Value], second: list[Value]) -> list[Value]:
        if len(first) != len(second):
            raise broken(f"{block.place} receives {len(first)} chunks, not {len(second)}")
        total = []
        for a, b in zip(first, second, strict=True):
            if a.chunk != b.chunk or a.mask & b.mask:
                raise broken(f"{block.place} adds values that do not add up to a sum")
            both = Value(a.chunk, a.mask | b.mask, a.leaves | b.leaves, max(a.ready, b.ready))
            total.append(self.flow.keep(block.gpu.rank, both))
        return total
