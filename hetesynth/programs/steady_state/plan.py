"""A schedule along trees -> an MSCCL++ plan in steady state.

In: a problem, a schedule in which every chunk takes a tree or two, costs, how many pieces of every chunk, the
server of each rank. Out: a ``Plan``. Every rank carries out what arrives in the order of ticks (``stations``).
Each tree has thread blocks of its own on every GPU where it goes on (``block_shares``), which share its pieces and
have channels of their own (``wiring``), so no barrier is needed, and each tree edge has its fair part of what it
crosses. Only shifts of one station wait for each other, by semaphores.

No deadlock: the ticks are one order of all stations, senders before receivers, in which every thread block takes
its own, and shifts follow it; a wait is for a sender's station and those before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from hetesynth.errors import HetesynthError
from hetesynth.model.cost import Costs
from hetesynth.model.plan import (
    CHANNEL_TYPES,
    MAX_OPERATIONS,
    MAX_REMOTE_BUFFERS,
    ChannelType,
    GpuPlan,
    Plan,
    PlanBlock,
    RemoteBuffer,
)
from hetesynth.model.problem import Problem
from hetesynth.model.program import Buffer, BufferSlice
from hetesynth.model.schedule import Schedule
from hetesynth.model.topology import Rank
from hetesynth.policy.lowering import LoweringPolicy
from hetesynth.programs.layout import CopySlice, Layout, in_place_supported
from hetesynth.programs.mscclpp.lower import RESIDENT_BLOCKS, PlanOptions
from hetesynth.programs.mscclpp.placement import neighbours
from hetesynth.programs.mscclpp.sizes import message_range
from hetesynth.programs.steady_state.block_operations import NOP, BlockEnds, BlockOperations
from hetesynth.programs.steady_state.block_shares import Place, PlanArrangement, heaviest, shared_out, widest
from hetesynth.programs.steady_state.pieces import in_pieces
from hetesynth.programs.steady_state.stations import stations
from hetesynth.programs.steady_state.traffic import Traffic
from hetesynth.programs.steady_state.wiring import Wiring, wired


def lower_steady_plan(
    problem: Problem,
    schedule: Schedule,
    costs: Costs,
    arrangement: PlanArrangement,
    options: PlanOptions,
    servers: Sequence[str],
) -> Plan:
    """The plan that carries out ``schedule`` as ``arrangement`` says.

    Raises HetesynthError: HS505 a collective or a schedule that is not lowered here, HS508 it does not fit the
    runtime's limits, HS509 buffers of the least size are too large for it.
    """
    name, pieces = problem.collective.name, arrangement.pieces
    if options.in_place and (name == "alltoall" or not in_place_supported(name)):
        raise HetesynthError(
            f"{name} has no plan in steady state in place", code="HS505", help="lower the schedule step by step"
        )
    blocks = shared_out(stations(problem, schedule), servers, arrangement.blocks)
    if blocks is None:
        raise _misfit(f"{name} needs more thread blocks, or one with more channels, than there are")
    phases = Traffic.of(problem, schedule, costs, 1).phases(1.0, options.policy.steady_turns[0])
    whole, order = in_pieces(problem, schedule, phases, pieces, options.policy.steady_ticks)
    layout = Layout(whole.collective, options.in_place)
    wiring = wired(stations(whole, order), blocks, arrangement, layout)
    gpus = _Gpus(layout, wiring, servers).all()
    least, most = message_range(name, gpus, options.min_bytes, options.max_bytes)
    return Plan(options.name, name, "Simple", options.in_place, tuple(gpus), min_bytes=least, max_bytes=most)


def plan_arrangements(
    problem: Problem, schedule: Schedule, costs: Costs, policy: LoweringPolicy, most: int
) -> list[PlanArrangement]:
    """The arrangements that may be quickest, with about as many pieces as fit and no more than ``most``.

    Thread blocks side by side are of use where one copies no faster than the runtime's rate. Raises
    HetesynthError HS505 where the schedule is not lowered here.
    """
    whole = stations(problem, schedule)
    each, of_block = widest(whole), max(1, MAX_OPERATIONS // heaviest(whole))
    limited = any(costs.copy_rate(rank, "Simple") is not None for rank in range(problem.ranks))
    listed: dict[PlanArrangement, None] = {}
    widths = policy.steady_plan_widths if limited else policy.steady_plan_widths[:1]
    for width in widths:
        if width <= min(each, most):
            shifts = min(each // width, -(-most // (of_block * width)))
            pieces = max(1, min(of_block, most // (width * shifts))) * width * shifts
            listed[PlanArrangement(pieces, width, shifts)] = None
    return list(listed)


def finest_steady_plan(
    problem: Problem,
    schedule: Schedule,
    costs: Costs,
    arrangement: PlanArrangement,
    most: int,
    options: PlanOptions,
    servers: Sequence[str],
) -> Plan:
    """The plan with as many pieces as fit into the thread blocks of ``arrangement``, and no more than ``most``;
    HetesynthError as ``lower_steady_plan``."""

    def lowered(pieces: int) -> Plan:
        each = PlanArrangement(pieces * arrangement.blocks, arrangement.width, arrangement.shifts)
        return lower_steady_plan(problem, schedule, costs, each, options, servers)

    one = lowered(1)
    limit = max(1, min(most // arrangement.blocks, options.policy.steady_plan_knowledge // _knowledge(one)))
    try:
        two = lowered(2) if limit > 1 else one
    except HetesynthError:
        return one
    first, second = _operations(one), _operations(two)
    rooms = ((MAX_OPERATIONS - a) // (b - a) for a, b in zip(first, second, strict=True) if b > a)
    for pieces in range(min(limit, 1 + min(rooms, default=limit)), 2, -1):
        try:
            return lowered(pieces)
        except HetesynthError:
            continue
    return two


def _knowledge(plan: Plan) -> int:
    """What a judge of races keeps: what each wait learns of every thread block and port channel."""
    blocks = [block for gpu in plan.gpus for block in gpu.blocks]
    actors = len(blocks) + sum(1 + len(gpu.port_peers) for gpu in plan.gpus)
    return actors * max(1, sum(len(x.channels) for block in blocks for x in block.operations if x.op == "wait"))


def _operations(plan: Plan) -> list[int]:
    return [len(block.operations) for gpu in plan.gpus for block in gpu.blocks]


class _Gpus:
    """The GPUs of a plan. ``peers``: the far end of each channel of a GPU; ``ends``: what each thread block can
    name."""

    def __init__(self, layout: Layout, wiring: Wiring, servers: Sequence[str]) -> None:
        self.layout, self.wiring, self.servers = layout, wiring, servers
        ranks = layout.collective.ranks
        self.peers: list[dict[ChannelType, list[Rank]]] = [{"memory": [], "port": []} for _ in range(ranks)]
        self.numbers: dict[Place, dict[ChannelType, list[int]]] = {}
        self.channels: dict[Place, dict[Place, tuple[ChannelType, int]]] = {}
        for place in wiring.sequences:
            self.numbers[place] = {"memory": [], "port": []}
            self.channels[place] = {}
        for one, other in sorted({(min(pair), max(pair)) for pair in wiring.signals}):
            kind = self._kind(one[0], other[0])
            for here, far in ((one, other), (other, one)):
                self.channels[here][far] = kind, len(self.numbers[here][kind])
                self.numbers[here][kind].append(len(self.peers[here[0]][kind]))
                self.peers[here[0]][kind].append(far[0])
        self.targets: dict[Place, set[tuple[Rank, Buffer]]] = {place: set() for place in wiring.sequences}
        for place, sequence in wiring.sequences.items():
            for a in sequence:
                for receiver in a.receivers:
                    landing = wiring.landings[(receiver, a.chunk, a.partial), a.rank]
                    self.targets[place].add((receiver, landing.buffer))
        self.semaphores: dict[Place, int] = {}
        self.number_of_semaphores = [0] * ranks
        for place in wiring.following:
            self.semaphores[place] = self.number_of_semaphores[place[0]]
            self.number_of_semaphores[place[0]] += 1
        self.before = {after: place for place, after in wiring.following.items()}

    def all(self) -> list[GpuPlan]:
        """One for each rank."""
        return [self._gpu(rank) for rank in range(self.layout.collective.ranks)]

    def _kind(self, one: Rank, other: Rank) -> ChannelType:
        return "memory" if self.servers[one] == self.servers[other] else "port"

    def _gpu(self, rank: Rank) -> GpuPlan:
        places = [place for place in self.wiring.sequences if place[0] == rank]
        buffers = sorted(set().union(*(self.targets[place] for place in places)))
        copies = self._copies(rank)
        blocks: list[PlanBlock] = []
        for number, place in enumerate(places):
            blocks.append(self._block(number, place, buffers, () if blocks else copies))
        if not blocks:
            blocks = [PlanBlock(0, (NOP,))]
        inputs, outputs = self.layout.sizes(rank)
        block = self.layout.collective.chunks_per_rank
        return GpuPlan(
            rank=rank,
            input_chunks=inputs or block,
            output_chunks=outputs or block,
            scratch_chunks=self.wiring.scratch[rank],
            blocks=tuple(blocks),
            memory_peers=tuple(self.peers[rank]["memory"]),
            port_peers=tuple(self.peers[rank]["port"]),
            remote_buffers=tuple(RemoteBuffer(p, buffer, (self._kind(rank, p),)) for p, buffer in buffers),
            semaphores=(0,) * self.number_of_semaphores[rank],
        )

    def _block(
        self, number: int, place: Place, buffers: Sequence[tuple[Rank, Buffer]], copies: Sequence[CopySlice]
    ) -> PlanBlock:
        own: dict[ChannelType, list[tuple[Rank, Buffer]]] = {
            kind: [b for b in buffers if b in self.targets[place] and self._kind(place[0], b[0]) == kind]
            for kind in CHANNEL_TYPES
        }
        names = {buffer: i for of_kind in own.values() for i, buffer in enumerate(of_kind)}
        ends = BlockEnds(self.channels[place], names)
        acquired = self.semaphores.get(self.before.get(place, place)) if place in self.before else None
        released = self.semaphores.get(place)
        operations = BlockOperations(self.wiring, self.layout, place, ends, copies, acquired, released).all()
        if len(operations) > MAX_OPERATIONS or max(map(len, own.values())) > MAX_REMOTE_BUFFERS:
            raise _misfit(f"rank {place[0]} needs a thread block of {len(operations)} operations")
        channels = {kind: tuple(of_kind) for kind, of_kind in self.numbers[place].items()}
        ids = {kind: tuple(buffers.index(b) for b in of_kind) for kind, of_kind in own.items()}
        return PlanBlock(number, operations, channels["memory"], channels["port"], ids["memory"], ids["port"])

    def _copies(self, rank: Rank) -> list[CopySlice]:
        """What the rank has from the start and must have in the end, to where it must stand."""
        collective, layout = self.layout.collective, self.layout
        pairs: list[tuple[BufferSlice, BufferSlice]] = []
        for k in range(len(collective.chunks)):
            source, home = layout.source(rank, k), layout.target(rank, k)
            if source is not None and home is not None and source != home and not collective.reduces:
                pairs.append((source, home))
        return list(neighbours(pairs))


def _misfit(why: str) -> HetesynthError:
    return HetesynthError(
        f"{why}; MSCCL++ holds {RESIDENT_BLOCKS} thread blocks of {MAX_OPERATIONS} operations",
        code="HS508",
        help="use fewer pieces, or fewer chunks per rank",
    )
