"""A program as tasks: thread blocks in order, channels with a few FIFO slots, loops over slices of a large buffer.

The rules are those of the runtimes (docs/model.md). A sender waits for a slot, stores its message and goes on:
alpha passes before the receiver has it (RCCL 0491ffb, src/collectives/device/prims_ll.h, ``waitSend`` and
``LLGenericOp``). A chunk larger than a message makes the whole program loop over slices of all chunks; loops
follow each other without a barrier."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from hetesynth.model.cost import Costs
from hetesynth.model.program import RECEIVES, SENDS, Op, Program, ThreadBlock
from hetesynth.model.target import PORTABLE, Target
from hetesynth.model.timeline import Timeline
from hetesynth.model.topology import Rank
from hetesynth.simulate.graph_builder import Links, SizedTasks

MAX_LOOPS = 64
"""Simulated; further ones are extrapolated."""
MIN_LOOPS = 6
MAX_TASKS = 300_000
"""Of all simulated loops: more take minutes."""
MAX_WORK = 300_000_000
"""Tasks x connections of all simulated loops, as all connections may share one resource."""
REDUCES: frozenset[Op] = frozenset({"re", "rrs", "rrc", "rrcs"})


@dataclass(frozen=True, slots=True)
class Place:
    """The instruction that a task stands for, and which of its messages: indices, from ``program.gpus`` on."""

    gpu: int
    block: int
    step: int
    message: int


@dataclass(frozen=True)
class ProgramTasks:
    """The tasks of ``simulated`` loops out of ``loops`` (the last one may be a part); a unit is one byte.
    ``skipped``: of these at either end, when further loops are extrapolated.

    Task ``i`` is ``places[i % len(places)]`` in loop ``i // len(places)``.
    """

    tasks: SizedTasks
    places: tuple[Place, ...]
    simulated: int
    loops: float
    skipped: int

    def whole(self, timeline: Timeline) -> tuple[float, float]:
        """Seconds of all loops, and by how much the lengths of loops differ from their mean (0: equally long).

        With more loops than were simulated, each further one is taken to be as long as the simulated ones are
        on average, but for ``skipped`` at either end. That is exact when these are equally long. Where loops
        overlap for long, it can be too little, so the whole is never less than what any resource needs for all
        loops, from the first byte that may reach it.
        """
        if self.loops <= self.simulated:
            return timeline.makespan, 0.0
        ends = timeline.end.reshape(self.simulated, len(self.places)).max(axis=1)
        first, last = self.skipped, self.simulated - 1 - self.skipped
        lengths = np.diff(ends[first : last + 1])
        period = float(lengths.mean())
        unsteady = float(np.abs(lengths - period).max() / period) if period > 0 else 0.0
        graph = timeline.graph
        of_loop = int(graph.uses_start[len(self.places)])
        task = np.repeat(np.arange(len(self.places)), np.diff(graph.uses_start[: len(self.places) + 1]))
        uses = graph.uses[:of_loop]
        load = np.bincount(uses, graph.size[task], len(graph.rate))
        first_byte = np.full(len(graph.rate), np.inf)
        np.minimum.at(first_byte, uses, graph.delay[task])
        least = np.where(load > 0, self.loops * load / graph.rate + first_byte, 0.0)
        longer = timeline.makespan + (self.loops - self.simulated) * period
        return max(longer, self.tasks.start + float(least.max(initial=0.0))), unsteady


class ProgramLoops:
    """A program on a topology, to be simulated at any chunk size; what sizes have in common is made once.

    ``target``: whose messages they are. ``slots`` overrides the FIFO slots of the protocol. Raises ValueError
    when the program cannot run: it sends where ``costs`` has no link, sends and receives do not match, or a step
    waits for one that is never published.
    """

    def __init__(
        self, program: Program, costs: Costs, *, target: Target = PORTABLE, slots: int | None = None
    ) -> None:
        self._program, self._costs = program, costs
        self._fifo = target.fifo(program.protocol, program.collective)
        counts = (x.count for gpu in program.gpus for block in gpu.thread_blocks for x in block.instructions)
        self._most = min(target.max_count, max(counts, default=1))
        self._slots = slots or self._fifo.slots
        self._loops: dict[int, _Loop] = {}
        self._loop(1)

    def tasks(self, chunk_bytes: float, costs: Costs | None = None) -> ProgramTasks:
        """The tasks when a chunk has ``chunk_bytes``. ``costs``: of the same links at other rates."""
        message = self._fifo.slice_bytes
        loop = self._loop(int(min(self._most, max(1.0, self._fifo.batch_bytes // chunk_bytes))))
        loops = max(1.0, chunk_bytes / message)
        tasks = max(1, len(loop.places))
        affordable = min(MAX_TASKS // tasks, MAX_WORK // (tasks * max(1, loop.connections)))
        most = min(MAX_LOOPS, max(MIN_LOOPS, affordable))
        simulated = min(math.ceil(loops), most)
        slices = [min(chunk_bytes, float(message))] * simulated
        if 1 < math.ceil(loops) == simulated:
            slices[-1] = chunk_bytes - (simulated - 1) * message
        sized = loop.repeated(slices, costs or self._costs)
        skipped = max(0, min(simulated // 4, simulated // 2 - 1))
        return ProgramTasks(sized, tuple(loop.places), simulated, loops if loops > most else simulated, skipped)

    def _loop(self, together: int) -> _Loop:
        if together not in self._loops:
            overhead = float(self._fifo.overhead)
            self._loops[together] = _Loop(self._program, self._costs, together, self._slots, overhead)
        return self._loops[together]


@dataclass(slots=True)
class _Connection:
    """Tasks of one loop, in order: ``sends[k]`` puts message k on its way, ``takes[k]`` takes it."""

    link: int
    sends: list[int]
    takes: list[int]


class _Loop:
    """The tasks of one loop; what they wait for may lie some loops back."""

    def __init__(self, program: Program, costs: Costs, together: int, slots: int, overhead: float) -> None:
        self.places: list[Place] = []
        self._program, self._costs, self._together = program, costs, together
        self._overhead = overhead  # bytes on the wire for each byte of data
        self._copiers: list[tuple[str, float]] = []
        self._tasks: list[tuple[int, int, float, float, int]] = []  # link, chunks, work before and after, copier
        self._waits: list[tuple[int, int, int, int]] = []  # (task, task it waits for, loops back, link or -1)
        self._connections: dict[tuple[Rank, Rank, int], _Connection] = {}
        self._steps: dict[tuple[int, int, int], range] = {}  # the tasks of each
        self._links = Links(costs)
        self._channels: dict[tuple[Rank, Rank], set[int]] = defaultdict(set)
        for gpu in program.gpus:
            for block in gpu.thread_blocks:
                if block.send_peer is not None:
                    self._channels[gpu.rank, block.send_peer].add(block.channel)
        for g, gpu in enumerate(program.gpus):
            for b, block in enumerate(gpu.thread_blocks):
                self._add_block(g, b, block)
        for (src, dst, channel), connection in self._connections.items():
            count = len(connection.sends)
            if count != len(connection.takes):
                raise ValueError(f"{src} sends {count} messages to {dst} on channel {channel}, which takes others")
            for k, (send, receive) in enumerate(zip(connection.sends, connection.takes, strict=True)):
                self._waits.append((receive, send, 0, connection.link))
                back, which = divmod(k - slots, count)
                self._waits.append((send, connection.takes[which], -back, -1))
        self._wait_for_steps()

    @property
    def connections(self) -> int:
        """How many connections the program uses."""
        return len(self._connections)

    def _add_block(self, g: int, b: int, block: ThreadBlock) -> None:
        first, costs, rank = len(self.places), self._costs, self._program.gpus[g].rank
        rate, copier = costs.copy_rate(rank, self._program.protocol), -1
        if rate is not None and block.send_peer is not None:  # a thread block that sends at a limited rate
            copier = len(self._copiers)
            self._copiers.append((f"thread block {block.id} of gpu {rank}", rate * self._overhead))
        for step, x in enumerate(block.instructions):
            sends, receives, left, message = x.op in SENDS, x.op in RECEIVES, x.count, 0
            work = costs.gamma[rank] if x.op in REDUCES else costs.copy[rank] if x.op == "cpy" else 0.0
            while message == 0 or left > 0:
                task, link, chunks = len(self.places), -1, min(left, self._together) if sends or receives else left
                if receives:
                    self._connection(block.recv_peer, rank, block.channel).takes.append(task)
                if sends:
                    connection = self._connection(rank, block.send_peer, block.channel)
                    connection.sends.append(task)
                    link = connection.link
                self.places.append(Place(g, b, step, message))
                spent = (chunks * work, 0.0, copier) if sends else (0.0, chunks * work, -1)
                self._tasks.append((link, chunks, *spent))
                left -= max(1, chunks)
                message += 1
            self._steps[g, b, step] = range(len(self.places) - message, len(self.places))
        tasks = range(first, len(self.places))
        self._waits.extend((task, task - 1, 0, -1) for task in tasks[1:])
        if tasks:
            self._waits.append((first, tasks[-1], 1, -1))

    def _connection(self, src: Rank | None, dst: Rank | None, channel: int) -> _Connection:
        if src is None or dst is None:
            raise ValueError("a thread block sends or receives and has no peer for it")
        key = (src, dst, channel)
        if key not in self._connections:
            channels = sorted(self._channels.get((src, dst), ()))  # of the pair: equal links take turns
            turn = channels.index(channel) if channel in channels else 0
            self._connections[key] = _Connection(self._links.fastest(src, dst, turn), [], [])
        return self._connections[key]

    def _wait_for_steps(self) -> None:
        numbers = [{block.id: b for b, block in enumerate(gpu.thread_blocks)} for gpu in self._program.gpus]
        for (g, b, step), tasks in self._steps.items():
            gpu = self._program.gpus[g]
            depends = gpu.thread_blocks[b].instructions[step].depends
            if depends is None:
                continue
            other = numbers[g].get(depends[0], -1)
            steps = gpu.thread_blocks[other].instructions if other >= 0 else ()
            later = range(max(0, depends[1]), len(steps))
            published = next((s for s in later if steps[s].has_dependents), None)
            if published is None:
                raise ValueError(f"gpu {gpu.rank}: a step depends on {depends}, which never publishes")
            self._waits.append((tasks[0], self._steps[g, other, published][-1], 0, -1))

    def repeated(self, slices: list[float], costs: Costs) -> SizedTasks:
        """The loop once for each slice, ``slices[l]`` bytes of every chunk."""
        n, loops = len(self.places), len(slices)
        table = np.asarray(self._tasks, dtype=np.float64).reshape(-1, 5).T
        link, chunks, work_before, work_after, copier = (np.tile(column, loops) for column in table)
        size = np.repeat(slices, n)
        waits = np.asarray(sorted(self._waits), dtype=np.int64).reshape(-1, 4)
        loop = np.repeat(np.arange(loops), len(waits))
        task, before, back, over = np.tile(waits, (loops, 1)).T
        real = back <= loop
        task, before, back, over, loop = task[real], before[real], back[real], over[real], loop[real]
        starts = np.concatenate(([0], np.cumsum(np.bincount(task + loop * n, minlength=n * loops))))
        return SizedTasks(
            costs=costs,
            link=link.astype(np.int64),
            alpha_of=np.full(len(link), -1),
            units=chunks * self._overhead * size,
            before=work_before * size,
            after=work_after * size,
            waits=before + (loop - back) * n,
            waits_start=starts.astype(np.int64),
            start=costs.start(self._program.protocol),
            copiers=self._copiers,
            copier=copier.astype(np.int64),
            lags=np.asarray([*costs.lags(self._program.protocol), 0.0])[over],
        )
