"""Trees that copy to every rank -> an MSCCL++ plan in steady state.

In: a problem (allgather or broadcast), a schedule in which the transfers of each chunk are its tree, costs, the
number of pieces, the server of each rank. Out: a ``Plan``, out of place. Every tree has thread blocks of its own
on every GPU, which share its pieces; more trees than thread blocks share them. A thread block waits for a piece,
puts it to the children of its GPU and signals, piece after piece. It has channels of its own, so nothing orders
thread blocks among each other: no barrier is needed, and each tree edge has its fair part of what it crosses.

No deadlock: all thread blocks of a tree take its pieces in one order, that of the ticks, and a parent's put of a
piece waits for nothing but that piece and those before. Reductions are not lowered here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hetesynth.errors import HetesynthError
from hetesynth.lowering.layout import Layout
from hetesynth.lowering.mscclpp.lower import RESIDENT_BLOCKS, PlanOptions
from hetesynth.lowering.mscclpp.sizes import message_range
from hetesynth.lowering.steady_state.pieces import in_pieces
from hetesynth.lowering.steady_state.traffic import Traffic
from hetesynth.model.cost import Costs
from hetesynth.model.plan import (
    MAX_CHANNELS,
    MAX_CHANNELS_OF_OPERATION,
    MAX_OPERATIONS,
    MAX_REMOTE_BUFFERS,
    ChannelType,
    GpuPlan,
    LocalSlice,
    Plan,
    PlanBlock,
    PlanOperation,
    RemoteBuffer,
    RemoteSlice,
)
from hetesynth.model.problem import Problem
from hetesynth.model.program import BufferSlice
from hetesynth.model.schedule import Schedule
from hetesynth.model.topology import Rank

COPYING = ("allgather", "broadcast")
NOP = PlanOperation("nop")
_Arrival = tuple[int, Rank | None, list[Rank]]  # chunk, its parent here, its children


def lower_steady_plan(
    problem: Problem, schedule: Schedule, costs: Costs, pieces: int, options: PlanOptions, servers: Sequence[str]
) -> Plan:
    """The plan that carries out ``schedule`` with ``pieces`` of every chunk.

    Raises HetesynthError: HS505 a collective that is not lowered here, HS508 it does not fit the runtime's limits.
    """
    name, trees = problem.collective.name, len(problem.collective.chunks)
    if name not in COPYING or options.in_place:
        raise HetesynthError(
            f"{name} has no plan in steady state{' in place' if options.in_place else ''}", code="HS505",
            help=f"use {' or '.join(COPYING)} out of place, or lower the schedule",
        )  # fmt: skip
    phases = Traffic.of(problem, schedule, costs, 1).phases(1.0, options.policy.steady_turns[0])
    whole, order = in_pieces(problem, schedule, phases, pieces, options.policy.steady_ticks)
    layout = Layout(whole.collective, in_place=False)
    width = max(1, RESIDENT_BLOCKS // trees)
    routes = _routes(whole, order)
    gpus = []
    for rank in range(problem.ranks):
        blocks: dict[int, list[_Arrival]] = defaultdict(list)
        for arrival in routes[rank]:
            tree, piece = divmod(arrival[0], pieces)
            blocks[(tree * width + piece % width) % RESIDENT_BLOCKS].append(arrival)
        gpus.append(_gpu(layout, rank, blocks, servers))
    least, most = message_range(name, gpus, options.min_bytes, options.max_bytes)
    return Plan(options.name, name, "Simple", False, tuple(gpus), min_bytes=least, max_bytes=most)


def finest_steady_plan(
    problem: Problem, schedule: Schedule, costs: Costs, options: PlanOptions, servers: Sequence[str]
) -> Plan:
    """The plan with the most pieces that fit; HetesynthError as ``lower_steady_plan`` where not even one does."""

    def plan_of(pieces: int) -> Plan | None:
        try:
            return lower_steady_plan(problem, schedule, costs, pieces, options, servers)
        except HetesynthError as refused:
            if refused.code != "HS508":
                raise
            return None

    finest = lower_steady_plan(problem, schedule, costs, 1, options, servers)
    fits, fails = 1, MAX_OPERATIONS * RESIDENT_BLOCKS
    while fails - fits > 1:
        pieces = min(2 * fits, (fits + fails) // 2)
        plan = plan_of(pieces)
        if plan is None:
            fails = pieces
        else:
            fits, finest = pieces, plan
    return finest


def _routes(problem: Problem, schedule: Schedule) -> list[list[_Arrival]]:
    """For each rank the chunks that come or start there, in the order of ticks: (chunk, parent, children)."""
    parent: dict[tuple[Rank, int], Rank] = {}
    children: dict[tuple[Rank, int], list[Rank]] = defaultdict(list)
    first: dict[tuple[Rank, int], int] = {}
    for t in schedule.transfers:
        arc = problem.arcs[t.link]
        parent[arc.dst, t.chunk] = arc.src
        children[arc.src, t.chunk].append(arc.dst)
        first.setdefault((arc.src, t.chunk), t.start)
        first.setdefault((arc.dst, t.chunk), t.end)
    routes: list[list[_Arrival]] = [[] for _ in range(problem.ranks)]
    for (rank, chunk), _ in sorted(first.items(), key=lambda item: (item[1], item[0][1], item[0][0])):
        routes[rank].append((chunk, parent.get((rank, chunk)), children[rank, chunk]))
    return routes


@dataclass
class _Ends:
    """The channels of a GPU of one type: of the whole GPU, and of the thread block at hand."""

    peers: list[Rank] = field(default_factory=list)
    own: dict[Rank, int] = field(default_factory=dict)
    first: int = 0

    def begin(self, peers: Sequence[Rank]) -> None:
        """Channels to ``peers`` for one more thread block."""
        self.first = len(self.peers)
        self.own = {peer: i for i, peer in enumerate(peers)}
        self.peers += peers

    @property
    def numbers(self) -> tuple[int, ...]:
        """Those of the thread block, as indices into the list of the GPU."""
        return tuple(range(self.first, len(self.peers)))


def _gpu(layout: Layout, rank: Rank, blocks: dict[int, list[_Arrival]], servers: Sequence[str]) -> GpuPlan:
    ends: dict[ChannelType, _Ends] = {"memory": _Ends(), "port": _Ends()}

    def kind_of(peer: Rank) -> ChannelType:
        return "memory" if servers[peer] == servers[rank] else "port"

    targets = sorted({child for arrivals in blocks.values() for _, _, children in arrivals for child in children})
    buffers = tuple(RemoteBuffer(peer, "o", (kind_of(peer),)) for peer in targets)
    drafts: list[PlanBlock] = []
    for number in sorted(blocks):
        peers = sorted({p for _, up, down in blocks[number] for p in (*down, *([] if up is None else [up]))})
        for kind, of_kind in ends.items():
            of_kind.begin([p for p in peers if kind_of(p) == kind])
        draft = _Block(layout, rank, blocks[number], {kind: of_kind.own for kind, of_kind in ends.items()})
        operations = tuple(draft.operations(with_copy=not drafts))
        near, far = (
            tuple(i for i, b in enumerate(buffers) if b.rank in draft.targets(kind)) for kind in ("memory", "port")
        )
        longest, most = max(len(of_kind.own) for of_kind in ends.values()), max(len(near), len(far))
        if len(operations) > MAX_OPERATIONS or longest > MAX_CHANNELS or most > MAX_REMOTE_BUFFERS:
            raise HetesynthError(
                f"rank {rank} needs a thread block of {len(operations)} operations and {longest} channels; "
                f"MSCCL++ holds {MAX_OPERATIONS} and {MAX_CHANNELS}",
                code="HS508",
                help="use fewer pieces, or fewer chunks per rank",
            )
        memory, port = ends["memory"].numbers, ends["port"].numbers
        drafts.append(PlanBlock(len(drafts), operations, memory, port, near, far))
    inputs, outputs = layout.sizes(rank)
    return GpuPlan(
        rank=rank,
        input_chunks=inputs,
        output_chunks=outputs,
        scratch_chunks=0,
        blocks=tuple(drafts),
        memory_peers=tuple(ends["memory"].peers),
        port_peers=tuple(ends["port"].peers),
        remote_buffers=buffers,
    )


@dataclass(frozen=True)
class _Block:
    """What one thread block does. ``own``: its channel to each peer, by type."""

    layout: Layout
    rank: Rank
    arrivals: Sequence[_Arrival]
    own: dict[ChannelType, dict[Rank, int]]

    def targets(self, kind: ChannelType) -> list[Rank]:
        """The peers that it writes to over channels of one type."""
        return sorted({c for _, _, children in self.arrivals for c in children if c in self.own[kind]})

    def operations(self, *, with_copy: bool) -> Iterator[PlanOperation]:
        """Handshake, the pieces, the copy of what the rank has from the start, flushes."""
        yield from self._handshake()
        for chunk, parent, children in self.arrivals:
            if parent is not None:
                yield from (
                    PlanOperation("wait", kind, (on[parent],)) for kind, on in self.own.items() if parent in on
                )
                if children:
                    yield NOP
            for kind in ("port", "memory"):
                yield from self._put(kind, chunk, [c for c in children if c in self.own[kind]])
        if with_copy:
            yield from self._copies()
        port = tuple(self.own["port"][peer] for peer in self.targets("port"))
        for first in range(0, len(port), MAX_CHANNELS_OF_OPERATION):
            ids = port[first : first + MAX_CHANNELS_OF_OPERATION]
            yield NOP
            yield PlanOperation("flush", "port", ids, dst=(LocalSlice("o", 0, 1),) * len(ids))

    def _handshake(self) -> Iterator[PlanOperation]:
        """Tell parents that the kernel runs here, and wait until it runs at the children."""
        parents = {parent for _, parent, _ in self.arrivals}
        awaited = False
        for kind, on in self.own.items():
            yield from _each(
                "rlxsignal" if kind == "memory" else "signal", kind, [on[p] for p in on if p in parents]
            )
            written = [on[p] for p in self.targets(kind)]
            yield from _each("rlxwait" if kind == "memory" else "wait", kind, written)
            awaited = awaited or bool(written)
        if awaited:
            yield NOP

    def _put(self, kind: ChannelType, chunk: int, children: Sequence[Rank]) -> Iterator[PlanOperation]:
        if not children:
            return
        source, home = self._source(chunk), self._home(chunk)
        buffers = self.targets(kind)
        for first in range(0, len(children), MAX_CHANNELS_OF_OPERATION):
            part = children[first : first + MAX_CHANNELS_OF_OPERATION]
            ids = tuple(self.own[kind][child] for child in part)
            yield PlanOperation(
                "put",
                kind,
                ids if kind == "port" else (),
                (LocalSlice(source.buffer, source.offset, 1),) * len(part),
                tuple(RemoteSlice(buffers.index(child), home.offset, 1) for child in part),
            )
            if kind == "memory":
                yield NOP
            yield PlanOperation("signal", kind, ids)

    def _copies(self) -> Iterator[PlanOperation]:
        """The rank's own chunks, which stand side by side, from input to output."""
        own = [k for k, holders in enumerate(self.layout.collective.pre) if self.rank in holders]
        if own:
            source, home = self._source(own[0]), self._home(own[0])
            yield PlanOperation(
                "copy",
                src=(LocalSlice(source.buffer, source.offset, len(own)),),
                dst=(LocalSlice(home.buffer, home.offset, len(own)),),
            )

    def _source(self, chunk: int) -> BufferSlice:
        return self.layout.source(self.rank, chunk) or self._home(chunk)

    def _home(self, chunk: int) -> BufferSlice:
        home = self.layout.target(self.rank, chunk)
        if home is None:
            raise ValueError(f"rank {self.rank} has no place for chunk {chunk}")
        return home


def _each(op: str, kind: ChannelType, channels: Sequence[int]) -> Iterator[PlanOperation]:
    for first in range(0, len(channels), MAX_CHANNELS_OF_OPERATION):
        yield PlanOperation(op, kind, tuple(channels[first : first + MAX_CHANNELS_OF_OPERATION]))  # type: ignore[arg-type]
