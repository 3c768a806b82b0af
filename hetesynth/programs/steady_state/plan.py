"""A schedule along trees -> an MSCCL++ plan in steady state.

Each tree has thread blocks of its own on every GPU where it goes on (``wiring``), so no barrier is needed; shifts
wait for each other by semaphores. Operations of a thread block: the handshake; for each station a wait, the sum,
puts and signals; waits for what ends here; own chunks copied home; flushes. ``res`` adds and puts at once inside a
server; over ports a ``pws`` follows the sum. Ticks order all stations, senders first, so there is no deadlock."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from hetesynth.errors import HetesynthError
from hetesynth.model.cost import Costs
from hetesynth.model.plan import (
    CHANNEL_TYPES,
    MAX_OPERATIONS,
    MAX_REMOTE_BUFFERS,
    MAX_SLICES,
    ChannelType,
    GpuPlan,
    Plan,
    PlanBlock,
    PlanOp,
    PlanOperation,
    RemoteBuffer,
    RemoteSlice,
    Slice,
)
from hetesynth.model.problem import Problem
from hetesynth.model.program import Buffer
from hetesynth.model.schedule import Schedule
from hetesynth.model.topology import Rank
from hetesynth.programs.cut_chunks import in_pieces
from hetesynth.programs.layout import CopySlice, FileOptions, Layout, in_place_supported
from hetesynth.programs.mscclpp.blocks import NOP, in_parts, local, on_channels
from hetesynth.programs.mscclpp.lower import RESIDENT_BLOCKS, buffer_sizes, plan_of_gpus
from hetesynth.programs.mscclpp.placement import in_target_order
from hetesynth.programs.steady_state.wiring import (
    Place,
    PlanArrangement,
    Station,
    Wiring,
    heaviest,
    shared_out,
    stations,
    widest,
)

MAX_KNOWLEDGE = 200_000_000
"""Entries of the vector clocks that waits learn: the judge refuses 2^28, 352 pieces of a broadcast along rings of
64."""


def lower_steady_plan(
    problem: Problem,
    schedule: Schedule,
    costs: Costs,
    arrangement: PlanArrangement,
    options: FileOptions,
    servers: Sequence[str],
) -> Plan:
    """The plan that carries out ``schedule`` as ``arrangement`` says. Raises HetesynthError: HS505 a collective or
    a schedule that is not lowered here, HS508 it does not fit the runtime's limits, HS509 buffers of the least
    size are too large for it."""
    name, pieces = problem.collective.name, arrangement.pieces
    if options.in_place and (problem.collective.kind.exchange or not in_place_supported(name)):
        raise HetesynthError(
            f"{name} has no plan in steady state in place", code="HS505", help="lower the schedule step by step"
        )
    blocks = shared_out(stations(problem, schedule), servers, arrangement.blocks)
    if blocks is None:
        raise _misfit(f"{name} needs more thread blocks, or one with more channels, than there are")
    whole, order = in_pieces(problem, schedule, _phases(problem, schedule, costs), pieces)
    layout = Layout(whole.collective, options.in_place)
    wiring = Wiring(stations(whole, order), blocks, arrangement, layout)
    gpus = [*map(_Gpus(layout, wiring, servers).gpu, range(problem.ranks))]
    return plan_of_gpus(options, name, gpus)


def _phases(problem: Problem, schedule: Schedule, costs: Costs) -> list[float]:
    """When each transfer of a piece can begin, in periods after the piece began, where all that cross a resource
    share it. A period is what the fullest resource needs for one piece of every chunk; chunks of one tree follow
    each other."""
    of_tree: dict[int, list[tuple[int, bool]]] = defaultdict(list)
    carried: Counter[int] = Counter()
    for t in schedule.transfers:
        of_tree[t.chunk].append((t.link, t.reduce))
        carried.update(costs.link_resources[t.link])
    alike: dict[tuple[tuple[int, bool], ...], list[int]] = defaultdict(list)
    for chunk in sorted(of_tree):
        alike[tuple(sorted(of_tree[chunk]))].append(chunk)
    copy_of = {k: (place, len(chunks)) for chunks in alike.values() for place, k in enumerate(chunks)}
    seconds = {r: number / costs.resource_rate[r] for r, number in carried.items()}
    period = max(seconds.values(), default=1.0)
    arrivals: dict[tuple[int, Rank], list[tuple[int, float]]] = defaultdict(list)
    begins: list[float] = []
    for t in schedule.transfers:
        arc, (copy, copies) = problem.arcs[t.link], copy_of[t.chunk]
        fullest = max(seconds[r] for r in costs.link_resources[t.link])
        crossing = (costs.link_alpha[t.link] + max(1 / costs.link_rate[t.link], fullest / copies)) / period
        here = [at for arrived, at in arrivals[t.chunk, arc.src] if arrived <= t.start]
        begins.append(max(here, default=copy / copies))
        arrivals[t.chunk, arc.dst].append((t.end, begins[-1] + crossing))
    return begins


def plan_arrangements(problem: Problem, schedule: Schedule, costs: Costs, most: int) -> list[PlanArrangement]:
    """The arrangements that may be quickest, with about as many pieces as fit and no more than ``most``. Thread
    blocks side by side are of use where one copies no faster than the runtime's rate. Raises HetesynthError HS505
    where the schedule is not lowered here."""
    whole = stations(problem, schedule)
    each, of_block = widest(whole), max(1, MAX_OPERATIONS // heaviest(whole))
    limited = any(costs.copy_rate(rank, "Simple") is not None for rank in range(problem.ranks))
    listed: dict[PlanArrangement, None] = {}
    for width in (1, 2, 4, 8) if limited else (1,):
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
    options: FileOptions,
    servers: Sequence[str],
) -> Plan:
    """The plan with as many pieces as fit into the thread blocks of ``arrangement``, and no more than ``most``;
    HetesynthError as ``lower_steady_plan``."""

    def lowered(pieces: int) -> Plan:
        each = PlanArrangement(pieces * arrangement.blocks, arrangement.width, arrangement.shifts)
        return lower_steady_plan(problem, schedule, costs, each, options, servers)

    one = lowered(1)
    # what a judge of races keeps: what each wait learns of every thread block and port channel
    of_one = [block for gpu in one.gpus for block in gpu.blocks]
    actors = len(of_one) + sum(1 + len(gpu.port_peers) for gpu in one.gpus)
    waits = sum(len(x.channels) for block in of_one for x in block.operations if x.op == "wait")
    knowledge = actors * max(1, waits)
    limit = max(1, min(most // arrangement.blocks, MAX_KNOWLEDGE // knowledge))
    try:
        two = lowered(2) if limit > 1 else one
    except HetesynthError:
        return one
    of_two = [block for gpu in two.gpus for block in gpu.blocks]
    lengths = ((len(a.operations), len(b.operations)) for a, b in zip(of_one, of_two, strict=True))
    rooms = ((MAX_OPERATIONS - a) // (b - a) for a, b in lengths if b > a)
    for pieces in range(min(limit, 1 + min(rooms, default=limit)), 2, -1):
        try:
            return lowered(pieces)
        except HetesynthError:
            continue
    return two


class _Gpus:
    """The GPUs of a plan. ``peers``: the far end of each channel of a GPU."""

    def __init__(self, layout: Layout, wiring: Wiring, servers: Sequence[str]) -> None:
        self.layout, self.wiring, self.servers = layout, wiring, servers
        self.peers: dict[tuple[Rank, ChannelType], list[Rank]] = defaultdict(list)
        self.numbers: dict[tuple[Place, ChannelType], list[int]] = defaultdict(list)
        self.channels: dict[Place, dict[Place, tuple[ChannelType, int]]] = defaultdict(dict)
        for one, other in sorted({(min(pair), max(pair)) for pair in wiring.signals}):
            kind = self._kind(one[0], other[0])
            for here, far in ((one, other), (other, one)):
                self.channels[here][far] = kind, len(self.numbers[here, kind])
                self.numbers[here, kind].append(len(self.peers[here[0], kind]))
                self.peers[here[0], kind].append(far[0])

    def _kind(self, one: Rank, other: Rank) -> ChannelType:
        return "memory" if self.servers[one] == self.servers[other] else "port"

    def gpu(self, rank: Rank) -> GpuPlan:
        """The plan of ``rank``."""
        wiring = self.wiring
        places = [place for place in wiring.sequences if place[0] == rank]
        targets = {  # the buffers of peers that each puts into
            place: {
                (receiver, wiring.landings[(receiver, a.chunk, a.partial), rank].buffer)
                for a in wiring.sequences[place]
                for receiver in a.receivers
            }
            for place in places
        }
        buffers = sorted(set().union(*targets.values()))
        following = [(place, after) for place, after in wiring.following.items() if place[0] == rank]
        released = {place: i for i, (place, _) in enumerate(following)}
        acquired = {after: i for i, (_, after) in enumerate(following)}
        layout, chunks = self.layout, range(len(self.layout.collective.chunks))
        # what the rank has from the start and must have in the end, to where it must stand
        pairs = [(layout.source(rank, k), layout.target(rank, k)) for k in chunks]
        moves = [(source, home) for source, home in pairs if source and home and source != home]
        copies = [] if layout.collective.reduces else in_target_order(moves)
        blocks: list[PlanBlock] = []
        for number, place in enumerate(places):
            own: dict[ChannelType, list[tuple[Rank, Buffer]]] = {
                kind: [b for b in buffers if b in targets[place] and self._kind(rank, b[0]) == kind]
                for kind in CHANNEL_TYPES
            }
            names = {buffer: i for of_kind in own.values() for i, buffer in enumerate(of_kind)}
            writer = _Operations(self, place, names)
            operations = writer.all(() if blocks else copies, acquired.get(place), released.get(place))
            if len(operations) > MAX_OPERATIONS or max(map(len, own.values())) > MAX_REMOTE_BUFFERS:
                raise _misfit(f"rank {rank} needs a thread block of {len(operations)} operations")
            memory, port = (tuple(self.numbers[place, kind]) for kind in CHANNEL_TYPES)
            near, far = (tuple(map(buffers.index, own[kind])) for kind in CHANNEL_TYPES)
            blocks.append(PlanBlock(number, operations, memory, port, near, far))
        reached = tuple(RemoteBuffer(p, buffer, (self._kind(rank, p),)) for p, buffer in buffers)
        sizes, some = buffer_sizes(layout, rank), tuple(blocks) or (PlanBlock(0, (NOP,)),)
        near, far = (tuple(self.peers[rank, kind]) for kind in CHANNEL_TYPES)
        semaphores = (0,) * len(following)
        return GpuPlan(rank, *sizes, wiring.scratch[rank], some, near, far, reached, semaphores)


def _misfit(why: str) -> HetesynthError:
    return HetesynthError(
        f"{why}; MSCCL++ holds {RESIDENT_BLOCKS} thread blocks of {MAX_OPERATIONS} operations",
        code="HS508",
        help="use fewer pieces, or fewer chunks per rank",
    )


class _Operations:
    """Writes those of ``place``. ``buffers``: which of its remote buffers a buffer of a peer is."""

    def __init__(self, gpus: _Gpus, place: Place, buffers: Mapping[tuple[Rank, Buffer], int]) -> None:
        self.wiring, self.layout, self.place, self.buffers = gpus.wiring, gpus.layout, place, buffers
        self.channels = gpus.channels[place]  # to other thread blocks: the type, and which of this one
        self.operations: list[PlanOperation] = []
        self.waited: dict[Place, int] = defaultdict(int)
        self.pushed: dict[int, int] = {}  # port channel -> thread, since the threads met

    def all(
        self, copies: Sequence[CopySlice], acquired: int | None, released: int | None
    ) -> tuple[PlanOperation, ...]:
        """The operations in order. ``copies``: from where the rank's own chunks stand to where they must.
        ``acquired``, ``released``: the semaphores by which shifts follow each other."""
        signals = self.wiring.signals
        incoming = [far for far in self.channels if (far, self.place) in signals]
        outgoing = [far for far in self.channels if (self.place, far) in signals]
        handshake: tuple[tuple[PlanOp, PlanOp, list[Place]], ...]
        handshake = (("rlxsignal", "signal", incoming), ("rlxwait", "wait", outgoing))
        for near_op, far_op, peers in handshake:
            self._on(near_op, "memory", self._numbers("memory", peers))
            self._on(far_op, "port", self._numbers("port", peers))
        if outgoing:
            self._meet()
        if acquired is not None:
            self._do(PlanOperation("sem_acquire", semaphores=(acquired,)))
            self._meet()
        for station in self.wiring.sequences[self.place]:
            self._station(station)
        ports = self._numbers("port", outgoing)
        if released is not None:
            self._on("flush", "port", ports)
            self._meet()
            self._do(PlanOperation("sem_release", semaphores=(released,)))
        self._wait({far: signals[far, self.place] for far in incoming})
        for source, home, count in copies:
            self._do(PlanOperation("copy", src=(local(source, count),), dst=(local(home, count),)))
        if released is None:
            self._on("flush", "port", ports)
        return tuple(self.operations) or (NOP,)

    # -- one station

    def _station(self, a: Station) -> None:
        if a.senders:
            awaited: dict[Place, int] = {}
            for sender in a.senders:
                far, number = self.wiring.awaited[a.name, sender]
                awaited[far] = max(number, awaited.get(far, 0))
            self._wait(awaited)
            self._meet()
        channels = [(r, *self.channels[self.wiring.receiving[a.name, r]]) for r in a.receivers]
        near = [r for r, kind, _ in channels if kind == "memory"]
        far_off = [(r, number) for r, kind, number in channels if kind == "port"]
        sent: list[Rank] = []
        if a.adds and a.senders:
            sent = near if not far_off and len(near) < MAX_SLICES else []
            landings = [self.wiring.landings[a.name, sender] for sender in a.senders]
            own = self.layout.source(a.rank, a.chunk)
            parts = landings if own is None else [own, *landings]
            home = None if a.partial else self.layout.target(a.rank, a.chunk)
            value = landings[0] if home is None else home
            while len(parts) > MAX_SLICES:
                self._do(PlanOperation("re", src=tuple(map(local, parts[:MAX_SLICES])), dst=(local(value),)))
                self._meet()
                parts = [value, *parts[MAX_SLICES:]]
            src = tuple(map(local, parts))
            dst: tuple[Slice, ...] = (local(value), *(self._there(a, r) for r in sent))
            added = PlanOperation("res", "memory", (), src, dst) if sent else PlanOperation("re", src=src, dst=dst)
            self._do(added)  # and puts the sum to ``sent``
            if far_off or (near and not sent):
                self._meet()
        else:  # what has come, or what the rank has from the start
            source = self.layout.source(a.rank, a.chunk)
            landed = self.wiring.landings[a.name, a.senders[0]] if a.senders else source
            if landed is None:
                raise ValueError(f"rank {a.rank} has no chunk {a.chunk}")
            value = landed
        ops: tuple[PlanOp, ...] = ("put", "pws")
        for op in ops:  # puts of a port channel, with the signal that follows
            group = [x for x in far_off if ((a.name, x[0]) in self.wiring.signalled) == (op == "pws")]
            for part in in_parts(group):
                ids = tuple(number for _, number in part)
                self._push(ids)
                to = tuple(self._there(a, r) for r, _ in part)
                self._do(PlanOperation(op, "port", ids, (local(value),) * len(part), to))
        for some in in_parts(near if not sent else []):
            to = tuple(self._there(a, r) for r in some)
            self._do(PlanOperation("put", "memory", (), (local(value),) * len(some), to))
        signalled = [n for r, kind, n in channels if kind == "memory" and (a.name, r) in self.wiring.signalled]
        if signalled:
            self._meet()
            self._on("signal", "memory", signalled)

    def _there(self, a: Station, receiver: Rank) -> RemoteSlice:
        """Where the value lands at ``receiver``."""
        landing = self.wiring.landings[(receiver, a.chunk, a.partial), a.rank]
        return RemoteSlice(self.buffers[receiver, landing.buffer], landing.offset, 1)

    # -- what threads tell each other

    def _do(self, operation: PlanOperation) -> None:
        self.operations.append(operation)

    def _meet(self) -> None:
        """The threads of the block wait for each other."""
        self._do(NOP)
        self.pushed.clear()

    def _push(self, channels: Sequence[int]) -> None:
        """Thread i pushes to ``channels[i]``: after what other threads have pushed there."""
        if any(self.pushed.get(channel, thread) != thread for thread, channel in enumerate(channels)):
            self._meet()
        self.pushed.update((channel, thread) for thread, channel in enumerate(channels))

    def _wait(self, numbers: Mapping[Place, int]) -> None:
        """Waits until so many signals of each have come."""
        while late := [far for far, number in numbers.items() if self.waited[far] < number]:
            for kind in CHANNEL_TYPES:
                self._on("wait", kind, self._numbers(kind, late))
            for far in late:
                self.waited[far] += 1

    def _numbers(self, kind: ChannelType, peers: Sequence[Place]) -> list[int]:
        """The channels of one type to ``peers``."""
        return [number for of, number in (self.channels[peer] for peer in peers) if of == kind]

    def _on(self, op: PlanOp, kind: ChannelType, channels: Sequence[int]) -> None:
        for operation in on_channels(op, kind, channels):
            if kind == "port" and op in ("signal", "flush"):
                self._push(operation.channels)
            self._do(operation)
