"""What a program or a schedule moves: arrivals of chunks at GPUs and their values; copies leave no trace.

A cell is one chunk of memory: buffer and offset, with one name for both views of aliased memory. A value is a sum
of leaves: the rank's own input, and arrivals. Its ``mask``: whose input it sums; two values of one chunk with one
mask are equal. A message takes one tick; times are longest paths, whatever the order of execution."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import gcd

from hetesynth.errors import HetesynthError
from hetesynth.model.collective import COLLECTIVE_NAMES, COLLECTIVES, Collective
from hetesynth.model.problem import Problem
from hetesynth.model.program import (
    READS,
    RECEIVES,
    SENDS,
    WRITES,
    Buffer,
    BufferSlice,
    GpuProgram,
    Instruction,
    Program,
    ThreadBlock,
)
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import PORTABLE
from hetesynth.model.topology import Rank
from hetesynth.programs.layout import Cell, Layout

MAX_CHUNKS = 4_000_000


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of a program's collective. ``chunks_per_rank``: as the model counts
    (``search/collectives/library``). ``pieces``: chunks of the model in one of the program; above 1 only for an
    allreduce whose chunks do not divide among the ranks."""

    chunks_per_rank: int
    pieces: int = 1


def shape(program: Program) -> Shape:
    """Return the shape of ``program``'s collective. Raises HetesynthError HS701 for a collective without a stated
    result (``custom`` and the like), HS702 for chunks that cannot be cut into one block per rank, HS304 for too
    many chunks."""
    name, chunks, ranks = program.collective, program.chunks_per_loop, program.ranks
    if name not in COLLECTIVE_NAMES:
        raise HetesynthError(
            f"collective {name!r} does not say what must be where in the end: there is nothing to schedule",
            code="HS701",
            help=f"only these can be imported: {', '.join(COLLECTIVE_NAMES)}",
        )
    kind, extent = COLLECTIVES[name], Shape(chunks)
    # the chunks of a loop of a gather or scatter cut one rank's block, or else the root's whole buffer
    own = max((g.input_chunks if kind.output_blocks else g.output_chunks for g in program.gpus), default=0)
    if kind.composed:
        pieces = ranks // gcd(chunks, ranks)
        extent = Shape(chunks * pieces // ranks, pieces)
    elif not kind.rooted or (kind.personalized and own != chunks):
        if chunks % ranks:
            raise HetesynthError(
                f"{chunks} chunks a loop cannot be cut into {ranks} equal blocks",
                code="HS702",
                exit_code=1,
                help="run `hetesynth verify` on the file",
            )
        extent = Shape(chunks // ranks)
    total = extent.chunks_per_rank * ranks * (ranks if kind.exchange else 1)
    if total > MAX_CHUNKS:
        raise HetesynthError(
            f"the file moves {total} chunks, more than {MAX_CHUNKS}", code="HS304", help="use fewer chunks a loop"
        )
    return extent


OWN = -1
"""The leaf that stands for the rank's own input."""


@dataclass(frozen=True, slots=True)
class Value:
    """A sum that a rank holds from tick ``ready`` on; ``leaves``: the arrivals there that it sums, and ``OWN``."""

    chunk: int
    mask: int
    leaves: frozenset[int]
    ready: int

    def plus(self, other: Value) -> Value:
        """Return the sum of this value and ``other``."""
        ready = max(self.ready, other.ready)
        return Value(self.chunk, self.mask | other.mask, self.leaves | other.leaves, ready)


@dataclass(frozen=True, slots=True)
class Arrival:
    """The arrival at ``dst`` of one chunk, sent by ``src`` in tick ``start`` by the instruction at ``place``."""

    src: Rank
    dst: Rank
    value: Value
    start: int
    place: str


@dataclass
class Flow:
    """The arrivals and values of an execution. ``arrivals[i]`` is leaf i. ``values[rank, chunk]``: the earliest
    value of each mask there. ``final[rank, chunk]``: the mask that is left where the chunk is asked for."""

    arrivals: list[Arrival] = field(default_factory=list)
    values: dict[tuple[Rank, int], dict[int, Value]] = field(default_factory=dict)
    final: dict[tuple[Rank, int], int] = field(default_factory=dict)

    def own(self, rank: Rank, chunk: int) -> Value:
        """Record that ``rank`` starts with its own input of ``chunk``, and return that value."""
        return self.keep(rank, Value(chunk, 1 << rank, frozenset((OWN,)), 0))

    def keep(self, rank: Rank, value: Value) -> Value:
        """Record that ``value`` stood at ``rank``, and return it."""
        by_mask = self.values.setdefault((rank, value.chunk), {})
        if value.mask not in by_mask or value.ready < by_mask[value.mask].ready:
            by_mask[value.mask] = value
        return value

    def arrive(self, src: Rank, dst: Rank, value: Value, start: int, place: str) -> Value:
        """Record the arrival at ``dst`` of ``value``, sent in tick ``start``, and return the value it becomes."""
        self.arrivals.append(Arrival(src, dst, value, start, place))
        leaf = frozenset((len(self.arrivals) - 1,))
        return self.keep(dst, Value(value.chunk, value.mask, leaf, start + 1))


def broken(what: str) -> HetesynthError:
    """Return the error that the program is wrong, as ``what`` says, so that nothing can be lifted from it."""
    return HetesynthError(
        f"the program is not right: {what}", code="HS702", help="run `hetesynth verify` on it", exit_code=1
    )


def flow_of_schedule(problem: Problem, schedule: Schedule) -> Flow:
    """Return the arrivals and values of ``schedule``. Raises HetesynthError HS702 if it sends what is not held."""
    flow = Flow()
    starting = [(rank, k) for k, ranks in enumerate(problem.collective.pre) for rank in sorted(ranks)]
    values = {at: flow.own(*at) for at in starting}
    arrivals: dict[int, list[tuple[int, Value, bool]]] = defaultdict(list)

    def land(end: int) -> None:
        for rank, value, reduce in arrivals.pop(end):
            before = values.get((rank, value.chunk))
            if reduce and before is not None:
                value = flow.keep(rank, before.plus(value))
            values[rank, value.chunk] = value

    for t in schedule.transfers:  # in the order of their starts
        for end in sorted(end for end in arrivals if end <= t.start):
            land(end)
        arc = problem.arcs[t.link]
        place = f"step {t.start}: rank {arc.src}"
        sent = values.get((arc.src, t.chunk))
        if sent is None:
            raise broken(f"{place} sends chunk {t.chunk} before it holds it")
        arrivals[t.end].append((arc.dst, flow.arrive(arc.src, arc.dst, sent, t.start, place), t.reduce))
    for end in sorted(arrivals):
        land(end)
    for k, ranks in enumerate(problem.collective.post):
        for rank in sorted(ranks):
            if (rank, k) not in values:
                raise broken(f"rank {rank} never gets chunk {k}")
            flow.final[rank, k] = values[rank, k].mask
    return flow


def flow_of(program: Program, collective: Collective, pieces: int) -> Flow:
    """Return the arrivals and values of ``program`` as it carries out ``collective``. A chunk of the program is
    ``pieces`` of the collective's, of which only the first is named. Raises HetesynthError HS702 when it stops,
    reads what nothing wrote or adds what cannot be added."""
    return _Execution(program, collective, range(0, len(collective.chunks), pieces)).run()


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
    def place(self) -> str:
        return f"gpu {self.gpu.rank} thread block {self.block.id} step {len(self.finished)}"


class _Execution:
    def __init__(self, program: Program, collective: Collective, chunks: range) -> None:
        self.collective, self.chunks, self.slots = collective, chunks, PORTABLE.slots(program.protocol)
        self.layout = Layout(collective, program.in_place and not program.out_of_place)
        self.flow = Flow()
        self.memory = {
            (rank, self._cell(rank, "i", self.layout.input_offset(k) // chunks.step)): self.flow.own(rank, k)
            for k in chunks
            for rank in collective.pre[k]
        }
        self.blocks: list[_Block] = []
        self.waiting: dict[int, list[int]] = {}
        connections: dict[tuple[Rank, Rank, int], _Connection] = defaultdict(_Connection)
        for gpu in program.gpus:
            others = {tb.id: len(self.blocks) + i for i, tb in enumerate(gpu.thread_blocks)}
            for tb in gpu.thread_blocks:
                loaded = _Block(gpu, tb, others)
                if tb.send_peer is not None:
                    loaded.outbound = connections[gpu.rank, tb.send_peer, tb.channel]
                    loaded.outbound.sender = len(self.blocks)
                if tb.recv_peer is not None:
                    loaded.inbound = connections[tb.recv_peer, gpu.rank, tb.channel]
                    loaded.inbound.receiver = len(self.blocks)
                self.blocks.append(loaded)

    def run(self) -> Flow:
        """Let thread blocks take turns until nothing moves, and return the flow."""
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
            if len(block.finished) < len(block.block.instructions):
                raise broken(f"{block.place} waits forever")
        for at in ((rank, k) for k in self.chunks for rank in self.collective.post[k]):
            rank, k = at
            cell = self._cell(rank, "o", self.layout.output_offset(k) // self.chunks.step)
            value = self.memory.get((rank, cell))
            if value is None or value.chunk != k:
                raise broken(f"gpu {rank} does not end with chunk {k} in {cell[0]}[{cell[1]}]")
            self.flow.final[rank, k] = value.mask
        return self.flow

    def _advance(self, index: int) -> Iterator[int]:
        """Execute instructions until one has to wait; yield the thread blocks that may go on because of them."""
        block = self.blocks[index]
        for x in block.block.instructions[len(block.finished) :]:
            if x.depends is not None:
                other = block.others.get(x.depends[0])
                if other is None:
                    raise broken(f"{block.place} waits for thread block {x.depends[0]}, which does not exist")
                if self._published(other, x.depends[1]) is None:
                    self.waiting.setdefault(other, []).append(index)
                    return
            if x.op in RECEIVES and not block.inbound.arriving:
                return
            if x.op in SENDS and block.outbound.under_way >= self.slots:
                return
            self._execute(block, x)
            if x.has_dependents:
                yield from self.waiting.pop(index, ())
            if x.op in RECEIVES and block.inbound.sender >= 0:
                yield block.inbound.sender
            if x.op in SENDS and block.outbound.receiver >= 0:
                yield block.outbound.receiver

    def _published(self, index: int, step: int) -> int | None:
        """Return the tick of the first step from ``step`` on that has dependents and is done; None: not yet."""
        block = self.blocks[index]
        for s in range(step, len(block.finished)):
            if block.block.instructions[s].has_dependents:
                return block.finished[s]
        return None

    def _execute(self, block: _Block, x: Instruction) -> None:
        """Execute ``x``: take what arrives, read, add, write and send."""
        now, incoming, inbound, outbound = block.tick, None, block.inbound, block.outbound
        if x.depends is not None:
            now = max(now, self._published(block.others[x.depends[0]], x.depends[1]) or 0)
        if x.op in RECEIVES:
            incoming, arrived = inbound.arriving.popleft()
            inbound.under_way -= 1
            now = max(now, arrived)
        if x.op in SENDS:
            slot = outbound.freed.popleft() if outbound.sent >= self.slots else 0
            now = max(now, outbound.free_from, slot)
        data = incoming or []
        if x.op in READS:
            read = self._read(block, x.src, x.count)
            data = self._added(block, data, read) if incoming is not None else read
        if x.op == "re":
            data = self._added(block, self._read(block, x.dst, x.count), data)
        if x.op in WRITES:
            for cell, value in zip(self._cells(block, x.dst, x.count), data, strict=True):
                self.memory[block.gpu.rank, cell] = value
        if x.op in RECEIVES:
            inbound.freed.append(now)
        if x.op in SENDS:
            rank, peer, place = block.gpu.rank, block.block.send_peer, block.place
            if peer is None:
                raise broken(f"{place} has no peer to send to")
            arriving = [self.flow.arrive(rank, peer, value, now, place) for value in data]
            outbound.arriving.append((arriving, now + 1))
            outbound.under_way += 1
            outbound.sent += 1
            outbound.free_from = now + 1
        block.tick = now
        block.finished.append(now)

    def _cells(self, block: _Block, part: BufferSlice | None, count: int) -> list[Cell]:
        if part is None:
            raise broken(f"{block.place} names no chunk")
        return [self._cell(block.gpu.rank, part.buffer, part.offset + i) for i in range(count)]

    def _cell(self, rank: Rank, buffer: Buffer, offset: int) -> Cell:
        return self.layout.cell(rank, BufferSlice(buffer, offset))

    def _read(self, block: _Block, part: BufferSlice | None, count: int) -> list[Value]:
        rank = block.gpu.rank
        values = [self.memory[rank, x] for x in self._cells(block, part, count) if (rank, x) in self.memory]
        if len(values) < count:
            raise broken(f"{block.place} reads what nothing has written")
        return values

    def _added(self, block: _Block, first: list[Value], second: list[Value]) -> list[Value]:
        if len(first) != len(second):
            raise broken(f"{block.place} receives {len(first)} chunks, not {len(second)}")
        for a, b in zip(first, second, strict=True):
            if a.chunk != b.chunk or a.mask & b.mask:
                raise broken(f"{block.place} adds values that do not add up to a sum")
        return [self.flow.keep(block.gpu.rank, a.plus(b)) for a, b in zip(first, second, strict=True)]
