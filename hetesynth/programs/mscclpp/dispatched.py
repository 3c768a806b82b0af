"""The pieces of a schedule along trees, in the order of their dispatch -> an MSCCL++ plan.

No barrier is needed: thread blocks wait for signals of peers, and for each other by semaphores. Operations of a
thread block: the handshake; for each station a wait, the sum, puts and signals; waits for what ends here; own
chunks copied home; flushes. ``res`` adds and puts at once inside a server; over ports a ``pws`` follows the sum.
The order of the dispatch holds for all thread blocks, senders first, so there is no deadlock."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from hetesynth.errors import HetesynthError
from hetesynth.model.plan import (
    CHANNEL_TYPES,
    MAX_CHANNELS,
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
from hetesynth.model.program import Buffer, BufferSlice
from hetesynth.model.schedule import Schedule
from hetesynth.model.timeline import Dispatch
from hetesynth.model.topology import Rank
from hetesynth.programs.layout import CopySlice, FileOptions, Layout, collective_in_pieces, in_place_supported
from hetesynth.programs.mscclpp.blocks import NOP, in_parts, local, on_channels
from hetesynth.programs.mscclpp.lower import RESIDENT_BLOCKS, buffer_sizes, plan_of_gpus
from hetesynth.programs.mscclpp.placement import in_target_order
from hetesynth.programs.mscclpp.station_blocks import Placing, Wiring, place_stations
from hetesynth.programs.mscclpp.stations import Place, Station, stations

MAX_KNOWLEDGE = 200_000_000
"""Entries of the vector clocks that waits learn: the judge refuses 2^28, 352 pieces of a broadcast along rings of
64."""
ROOMS = ((52, True), (46, False), (40, False))
"""Operations of a thread block but for what it begins and ends with, tried in this order."""


def placings(
    problem: Problem, schedule: Schedule, dispatch: Dispatch, servers: Sequence[str]
) -> Iterator[Placing]:
    """Yield ways to share out the pieces of ``schedule`` as dispatched; HetesynthError HS505 as ``stations``."""
    for room, wide in ROOMS:
        way = place_stations(problem, schedule, dispatch, servers, room, wide)
        if way is not None:
            yield way


def lower_dispatched_plan(
    problem: Problem, schedule: Schedule, dispatch: Dispatch, options: FileOptions, servers: Sequence[str]
) -> Plan:
    """The plan that carries out ``schedule`` in the order of ``dispatch``. Raises HetesynthError: HS505 a
    collective or a schedule that is not lowered here, HS508 it does not fit the runtime's limits, HS509 buffers of
    the least size are too large for it."""
    name, pieces = problem.collective.name, dispatch.pieces
    if options.in_place and (problem.collective.kind.exchange or not in_place_supported(name)):
        raise HetesynthError(
            f"{name} has no plan in steady state in place", code="HS505", help="lower the schedule step by step"
        )
    layout = Layout(collective_in_pieces(problem.collective, pieces), options.in_place)
    listed = stations(problem, schedule)
    refused = _misfit(f"{name} needs more thread blocks, or one with more channels, than there are")
    for way in placings(problem, schedule, dispatch, servers):
        wiring = Wiring(listed, pieces, way.placed(), layout)
        try:
            gpus = [*map(_Gpus(layout, wiring, servers).gpu, range(problem.ranks))]
        except HetesynthError as error:
            refused = error
            continue
        # what a judge of races keeps: what each wait learns of every thread block and port channel
        blocks = [block for gpu in gpus for block in gpu.blocks]
        actors = len(blocks) + sum(1 + len(gpu.port_peers) for gpu in gpus)
        if actors * sum(len(x.channels) for b in blocks for x in b.operations if x.op == "wait") > MAX_KNOWLEDGE:
            raise _misfit("its judge cannot follow so many pieces")
        return plan_of_gpus(options, name, gpus)
    raise refused


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
        semaphores = {key: i for i, key in enumerate(key for key in wiring.semaphores if key[0][0] == rank)}
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
            operations = _Operations(self, place, names, semaphores).all(() if blocks else copies)
            memory, port = (tuple(self.numbers[place, kind]) for kind in CHANNEL_TYPES)
            crowded = max(len(memory), len(port)) > MAX_CHANNELS
            if len(operations) > MAX_OPERATIONS or max(map(len, own.values())) > MAX_REMOTE_BUFFERS or crowded:
                raise _misfit(f"rank {rank} needs a thread block of {len(operations)} operations")
            near, far = (tuple(map(buffers.index, own[kind])) for kind in CHANNEL_TYPES)
            blocks.append(PlanBlock(number, operations, memory, port, near, far))
        reached = tuple(RemoteBuffer(p, buffer, (self._kind(rank, p),)) for p, buffer in buffers)
        sizes, some = buffer_sizes(layout, rank), tuple(blocks) or (PlanBlock(0, (NOP,)),)
        near, far = (tuple(self.peers[rank, kind]) for kind in CHANNEL_TYPES)
        return GpuPlan(rank, *sizes, wiring.scratch[rank], some, near, far, reached, (0,) * len(semaphores))


def _misfit(why: str) -> HetesynthError:
    return HetesynthError(
        f"{why}; MSCCL++ holds {RESIDENT_BLOCKS} thread blocks of {MAX_OPERATIONS} operations",
        code="HS508",
        help="use fewer pieces, or fewer chunks per rank",
    )


class _Operations:
    """The writer of the operations of ``place``. ``buffers``: the number there of each remote buffer of a peer."""

    def __init__(
        self,
        gpus: _Gpus,
        place: Place,
        buffers: Mapping[tuple[Rank, Buffer], int],
        semaphores: Mapping[tuple[Place, Place, bool], int],
    ) -> None:
        self.wiring, self.layout, self.place, self.buffers = gpus.wiring, gpus.layout, place, buffers
        self.channels = gpus.channels[place]  # to other thread blocks: the type, and which of this one
        self.semaphores = semaphores
        self.operations: list[PlanOperation] = []
        self.taken: dict[Place, int] = defaultdict(int)
        self.waited: dict[Place, int] = defaultdict(int)
        self.flying: set[int] = set()  # port channels on which puts may still be on their way
        self.pushed: dict[int, int] = {}  # port channel -> thread, since the threads met

    def all(self, copies: Sequence[CopySlice]) -> tuple[PlanOperation, ...]:
        """Return all operations in order. ``copies``: of the rank's own chunks to where they must stand."""
        acquired = [i for (_, there, lane), i in self.semaphores.items() if lane and there == self.place]
        released = [i for (here, _, lane), i in self.semaphores.items() if lane and here == self.place]
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
        if acquired:
            self._do(PlanOperation("sem_acquire", semaphores=tuple(acquired)))
            self._meet()
        for station in self.wiring.sequences[self.place]:
            self._station(station)
        ports = self._numbers("port", outgoing)
        if released:
            self._on("flush", "port", ports)
            self._meet()
            self._do(PlanOperation("sem_release", semaphores=tuple(released)))
        self._wait({far: signals[far, self.place] for far in incoming})
        for source, home, count in copies:
            self._do(PlanOperation("copy", src=(local(source, count),), dst=(local(home, count),)))
        if not released:
            self._on("flush", "port", ports)
        return tuple(self.operations) or (NOP,)

    # -- one station

    def _station(self, a: Station) -> None:
        here = self.wiring.handed.get((a.name, self.place)) if a.second else None
        if here is not None:  # another thread block has waited for it
            main, number = here
            while self.taken[main] < number:
                self._do(PlanOperation("sem_acquire", semaphores=(self.semaphores[main, self.place, False],)))
                self.taken[main] += 1
            self._meet()
        elif a.senders:
            awaited: dict[Place, int] = {}
            for sender in a.senders:
                far, number = self.wiring.awaited[a.name, sender]
                awaited[far] = max(number, awaited.get(far, 0))
            self._wait(awaited)
            self._meet()
        seconds = self.wiring.seconds.get(a.name, []) if a.senders and not a.second else []
        channels = [(r, *self.channels[self.wiring.receiving[a.name, r]]) for r in a.receivers]
        near = [r for r, kind, _ in channels if kind == "memory"]
        far_off = [(r, number) for r, kind, number in channels if kind == "port"]
        sent: list[Rank] = []
        if a.adds and a.senders:
            landings = [self.wiring.landings[a.name, sender] for sender in a.senders]
            home = None if a.partial else self.layout.target(a.rank, a.chunk)
            value = landings[0] if home is None else home
            if not a.second:
                own = self.layout.source(a.rank, a.chunk)
                sent = near if not seconds and not far_off and len(near) < MAX_SLICES else []
                self._add(landings if own is None else [own, *landings], value, [self._there(a, r) for r in sent])
                if seconds or far_off or (near and not sent):
                    self._meet()
        else:  # what has come, or what the rank has from the start
            source = self.layout.source(a.rank, a.chunk)
            landed = self.wiring.landings[a.name, a.senders[0]] if a.senders else source
            if landed is None:
                raise ValueError(f"rank {a.rank} has no chunk {a.chunk}")
            value = landed
        if seconds:
            handed = tuple(self.semaphores[self.place, there, False] for there in seconds)
            self._do(PlanOperation("sem_release", semaphores=handed))
        together = {number for _, number in far_off}
        if far_off:  # one after the other, or later pieces would slow this one down
            self._on("flush", "port", sorted(self.flying - together))
            self.flying = together
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

    def _add(self, parts: Sequence[BufferSlice], value: BufferSlice, sent: Sequence[RemoteSlice]) -> None:
        """Add operations for the sum of ``parts``, to ``value`` and at once to ``sent``."""
        while len(parts) > MAX_SLICES:
            self._do(PlanOperation("re", src=tuple(map(local, parts[:MAX_SLICES])), dst=(local(value),)))
            self._meet()
            parts = [value, *parts[MAX_SLICES:]]
        src = tuple(map(local, parts))
        dst: tuple[Slice, ...] = (local(value), *sent)
        self._do(PlanOperation("res", "memory", (), src, dst) if sent else PlanOperation("re", src=src, dst=dst))

    def _there(self, a: Station, receiver: Rank) -> RemoteSlice:
        """Return the slice at ``receiver`` in which the value of ``a`` lands."""
        landing = self.wiring.landings[(receiver, a.chunk, a.partial), a.rank]
        return RemoteSlice(self.buffers[receiver, landing.buffer], landing.offset, 1)

    # -- what threads tell each other

    def _do(self, operation: PlanOperation) -> None:
        self.operations.append(operation)

    def _meet(self) -> None:
        """Let the threads of the block wait for each other."""
        self._do(NOP)
        self.pushed.clear()

    def _push(self, channels: Sequence[int]) -> None:
        """Note that thread i pushes to ``channels[i]``; threads meet before if another one has pushed there."""
        if any(self.pushed.get(channel, thread) != thread for thread, channel in enumerate(channels)):
            self._meet()
        self.pushed.update((channel, thread) for thread, channel in enumerate(channels))

    def _wait(self, numbers: Mapping[Place, int]) -> None:
        """Wait until ``numbers[place]`` signals of each place have come."""
        while late := [far for far, number in numbers.items() if self.waited[far] < number]:
            for kind in CHANNEL_TYPES:
                self._on("wait", kind, self._numbers(kind, late))
            for far in late:
                self.waited[far] += 1

    def _numbers(self, kind: ChannelType, peers: Sequence[Place]) -> list[int]:
        """Return the numbers of the channels of one type to ``peers``."""
        return [number for of, number in (self.channels[peer] for peer in peers) if of == kind]

    def _on(self, op: PlanOp, kind: ChannelType, channels: Sequence[int]) -> None:
        for operation in on_channels(op, kind, channels):
            if kind == "port" and op in ("signal", "flush"):
                self._push(operation.channels)
            self._do(operation)
