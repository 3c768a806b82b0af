"""A program as tasks: thread blocks in order, channels with a few FIFO slots, loops over slices of a large buffer.

The rules are those of the runtimes (docs/model.md). A sender waits for a slot, stores its message and goes on:
alpha passes before the receiver has it (RCCL 0491ffb, src/collectives/device/prims_ll.h, ``waitSend`` and
``LLGenericOp``). A chunk larger than a message makes the whole program loop over slices of all chunks; loops
follow each other without a barrier."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hetesynth.model import column
from hetesynth.model.cost import Costs
from hetesynth.model.program import OPS, RECEIVES, SENDS, Op, Program, ThreadBlock
from hetesynth.model.step_table import table_of_all
from hetesynth.model.target import PORTABLE, Target
from hetesynth.model.timeline import Ints, Timeline
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
_SENDS, _RECEIVES, _REDUCES = (np.array([op in ops for op in OPS]) for ops in (SENDS, RECEIVES, REDUCES))


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
    of_loop: Ints  # a row for each task of one loop: the fields of its place
    simulated: int
    loops: float
    skipped: int

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """The instructions that the tasks of one loop stand for."""
        return tuple(Place(*row) for row in self.of_loop.tolist())

    def whole(self, timeline: Timeline) -> tuple[float, float]:
        """Seconds of all loops, and by how much the lengths of loops differ from their mean (0: equally long).

        With more loops than were simulated, each further one is taken to be as long as the simulated ones are
        on average, but for ``skipped`` at either end. That is exact when these are equally long. Where loops
        overlap for long, it can be too little, so the whole is never less than what any resource needs for all
        loops, from the first byte that may reach it until the last one has arrived.
        """
        if self.loops <= self.simulated:
            return timeline.makespan, 0.0
        ends = timeline.end.reshape(self.simulated, len(self.of_loop)).max(axis=1)
        lengths = np.diff(ends[self.skipped : self.simulated - self.skipped])
        period = float(lengths.mean())
        unsteady = float(np.abs(lengths - period).max() / period) if period > 0 else 0.0
        graph = timeline.graph
        of_loop = int(graph.uses_start[len(self.of_loop)])
        task = np.repeat(np.arange(len(self.of_loop)), np.diff(graph.uses_start[: len(self.of_loop) + 1]))
        uses = graph.uses[:of_loop]
        load = np.bincount(uses, graph.size[task], len(graph.rate))
        under_way = np.zeros(len(self.of_loop))  # of a send, until its receive begins
        if graph.lags is not None:
            waits = slice(0, graph.waits_start[len(self.of_loop)])
            np.maximum.at(under_way, graph.waits[waits], graph.lags[waits])
        first, last = np.full((2, len(graph.rate)), np.inf)
        np.minimum.at(first, uses, graph.delay[task])
        np.minimum.at(last, uses, under_way[task])
        least = np.where(load > 0, self.loops * load / graph.rate + first + last, 0.0)
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
        self._steps = _Steps.of(program)
        self._most = min(target.max_count, int(self._steps.count.max(initial=1)))
        self._slots = slots or self._fifo.slots
        self._loops: dict[int, _Loop] = {}
        self._full_loops: dict[tuple[int, int], SizedTasks] = {}
        self._loop(1)

    def tasks(self, chunk_bytes: float) -> ProgramTasks:
        """The tasks when a chunk has ``chunk_bytes``: one object for all sizes with more loops than simulated."""
        message = self._fifo.slice_bytes
        together = int(min(self._most, max(1.0, self._fifo.batch_bytes // chunk_bytes)))
        loop = self._loop(together)
        loops = max(1.0, chunk_bytes / message)
        tasks = max(1, len(loop.places))
        affordable = min(MAX_TASKS // tasks, MAX_WORK // (tasks * max(1, loop.connections)))
        most = min(MAX_LOOPS, max(MIN_LOOPS, affordable))
        simulated = min(math.ceil(loops), most)
        skipped = max(0, min(simulated // 4, simulated // 2 - 1))
        if loops > most:
            full = together, simulated
            if full not in self._full_loops:
                self._full_loops[full] = loop.repeated([float(message)] * simulated, self._costs)
            return ProgramTasks(self._full_loops[full], loop.places, simulated, loops, skipped)
        slices = [min(chunk_bytes, float(message))] * simulated
        if 1 < math.ceil(loops) == simulated:
            slices[-1] = chunk_bytes - (simulated - 1) * message
        return ProgramTasks(loop.repeated(slices, self._costs), loop.places, simulated, simulated, skipped)

    def _loop(self, together: int) -> _Loop:
        if together not in self._loops:
            overhead = float(self._fifo.overhead)
            self._loops[together] = _Loop(self._steps, self._program, self._costs, together, self._slots, overhead)
        return self._loops[together]


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """The instructions of a program in its order: op (as in ``OPS``), chunks, thread block (numbered over all
    GPUs), the thread block and step waited for (-1: none), and whether others wait for it. ``blocks``: of each
    thread block its GPU, where its steps begin, and after the last where they end."""

    op: Ints
    count: Ints
    block: Ints
    waits_block: Ints
    waits_step: Ints
    published: Ints
    blocks: list[tuple[int, int, ThreadBlock]]
    first: Ints

    @classmethod
    def of(cls, program: Program) -> _Steps:
        """Return the instructions of ``program``."""
        blocks = [(g, b, block) for g, gpu in enumerate(program.gpus) for b, block in enumerate(gpu.thread_blocks)]
        rows, first = table_of_all(program)
        block = np.repeat(np.arange(len(blocks)), np.diff(first))
        kept = [column.OP, column.COUNT, column.BLOCK, column.STEP, column.AWAITED]
        op, count, on, step, published = rows[:, kept].T
        return cls(op, count, block, on, step, published, blocks, first)


class _Loop:
    """The tasks of one loop; what they wait for may lie some loops back."""

    def __init__(
        self, steps: _Steps, program: Program, costs: Costs, together: int, slots: int, overhead: float
    ) -> None:
        self._program, self._overhead = program, overhead  # bytes on the wire for each byte of data
        sends, receives = _SENDS[steps.op], _RECEIVES[steps.op]
        messages = np.where(sends | receives, np.maximum(1, -(-steps.count // together)), 1)
        step = np.repeat(np.arange(len(steps.op)), messages)  # of each task
        first = np.concatenate(([0], np.cumsum(messages)))  # task of each step
        message = np.arange(len(step)) - first[step]
        block, left = steps.block[step], steps.count[step] - message * together
        self._chunks = np.where((sends | receives)[step], np.minimum(left, together), left).astype(np.float64)
        gpu = np.array([g for g, *_ in steps.blocks], dtype=np.int64)
        number = np.array([b for _, b, _ in steps.blocks], dtype=np.int64)
        self.places = np.stack((gpu[block], number[block], step - steps.first[block], message), axis=1)
        ranks = np.array([g.rank for g in program.gpus], dtype=np.int64)[gpu]
        gamma, copy = np.asarray(costs.gamma)[ranks[block]], np.asarray(costs.copy)[ranks[block]]
        op, sending, receiving = steps.op[step], sends[step], receives[step]
        work = self._chunks * np.where(_REDUCES[op], gamma, np.where(op == OPS.index("cpy"), copy, 0.0))
        self._before, self._after = np.where(sending, work, 0.0), np.where(sending, 0.0, work)
        self._copiers: list[tuple[str, float]] = []
        copier = np.full(len(gpu), -1)
        for b, (g, _, of) in enumerate(steps.blocks):
            rate = costs.copy_rate(program.gpus[g].rank, program.protocol)
            if rate is not None and of.send_peer is not None:  # a thread block that sends at a limited rate
                copier[b] = len(self._copiers)
                self._copiers.append((f"thread block {of.id} of gpu {program.gpus[g].rank}", rate * overhead))
        self._copier = np.where(sending, copier[block], -1)
        out, into = self._connections(steps, costs, block[sending], block[receiving])
        self._link = np.full(len(step), -1)
        self._link[sending] = self._links[out[block[sending]]]
        # sends and takes of each connection, the how manieth each is, and what it waits for
        sent, takes = np.flatnonzero(sending), np.flatnonzero(receiving)
        sent = sent[np.argsort(out[block[sent]], kind="stable")]
        takes = takes[np.argsort(into[block[takes]], kind="stable")]
        each = np.bincount(out[block[sent]], minlength=self.connections)
        begin = np.repeat(np.cumsum(each) - each, each)
        order, count = np.arange(len(sent)) - begin, np.repeat(each, each)
        back = (order - slots) // np.maximum(1, count)
        slot = takes[begin + order - slots - back * count]
        within = np.flatnonzero(block[1:] == block[:-1]) + 1  # after another task of the thread block
        full = np.flatnonzero(np.diff(steps.first) > 0)
        begins, ends = first[steps.first[full]], first[steps.first[full + 1]] - 1
        waiting, awaited = self._dependences(steps)
        zero = np.zeros(len(step), dtype=np.int64)
        none = zero - 1
        waits = np.concatenate(
            [
                (takes, sent, zero[: len(sent)], self._link[sent]),
                (sent, slot, -back, none[: len(sent)]),
                (within, within - 1, zero[: len(within)], none[: len(within)]),
                (begins, ends, zero[: len(full)] + 1, none[: len(full)]),
                (first[waiting], first[awaited + 1] - 1, zero[: len(waiting)], none[: len(waiting)]),
            ],
            axis=1,
        )
        self._waits = waits[:, np.lexsort(waits[::-1])]

    def _connections(self, steps: _Steps, costs: Costs, sending: Ints, receiving: Ints) -> tuple[Ints, Ints]:
        """The connection on which each thread block sends, and takes, -1 where it does not; of each its link."""
        links, ranks = Links(costs), [self._program.gpus[g].rank for g, *_ in steps.blocks]
        numbers: dict[tuple[Rank, Rank, int], int] = {}
        of_blocks, chosen = np.full((2, len(steps.blocks)), -1), list[int]()
        messages = [np.bincount(blocks, minlength=len(steps.blocks)) for blocks in (sending, receiving)]
        for b, (rank, (*_, block)) in enumerate(zip(ranks, steps.blocks, strict=True)):
            for way, peer in ((1, block.recv_peer), (0, block.send_peer)):
                if not messages[way][b]:
                    continue
                if peer is None:
                    raise ValueError("a thread block sends or receives and has no peer for it")
                src, dst = (peer, rank) if way else (rank, peer)
                number = of_blocks[way, b] = numbers.setdefault((src, dst, block.channel), len(numbers))
                if number == len(chosen):
                    chosen.append(links.fastest(src, dst, block.channel))
        self.connections, self._links = len(numbers), np.asarray(chosen, dtype=np.int64)
        ways = zip(of_blocks, (sending, receiving), strict=True)
        totals = [np.bincount(of_way[blocks], minlength=len(numbers)) for of_way, blocks in ways]
        for (src, dst, channel), sent, takes in zip(numbers, *totals, strict=True):
            if sent != takes:
                raise ValueError(f"{src} sends {sent} messages to {dst} on channel {channel}, which takes others")
        return of_blocks[0], of_blocks[1]

    def _dependences(self, steps: _Steps) -> tuple[Ints, Ints]:
        """The steps that wait for others, and the step of each that publishes what it waits for."""
        waiting, none = np.flatnonzero(steps.waits_block >= 0), len(steps.op)
        numbers = {(g, block.id): b for b, (g, _, block) in enumerate(steps.blocks)}
        gpus = [steps.blocks[b][0] for b in steps.block[waiting].tolist()]
        ids = steps.waits_block[waiting].tolist()
        other = np.array([numbers.get(key, -1) for key in zip(gpus, ids, strict=True)], dtype=np.int64)
        publishing = np.where(steps.published > 0, np.arange(none), none)
        following = np.append(np.minimum.accumulate(publishing[::-1])[::-1], none)  # from each step on
        at = np.minimum(steps.first[other] + np.maximum(0, steps.waits_step[waiting]), none)
        publishes = following[at]
        lost = np.flatnonzero((other < 0) | (publishes >= steps.first[other + 1]))
        if len(lost):
            i = int(waiting[lost[0]])
            rank = self._program.gpus[steps.blocks[steps.block[i]][0]].rank
            depends = int(steps.waits_block[i]), int(steps.waits_step[i])
            raise ValueError(f"gpu {rank}: a step depends on {depends}, which never publishes")
        return waiting, publishes

    def repeated(self, slices: list[float], costs: Costs) -> SizedTasks:
        """The loop once for each slice, ``slices[l]`` bytes of every chunk."""
        n, loops = len(self.places), len(slices)
        columns = (self._link, self._chunks, self._before, self._after, self._copier)
        link, chunks, work_before, work_after, copier = (np.tile(values, loops) for values in columns)
        size = np.repeat(slices, n)
        waits = self._waits.T
        loop = np.repeat(np.arange(loops), len(waits))
        task, before, back, over = np.tile(waits, (loops, 1)).T
        real = back <= loop
        task, before, back, over, loop = task[real], before[real], back[real], over[real], loop[real]
        starts = np.concatenate(([0], np.cumsum(np.bincount(task + loop * n, minlength=n * loops))))
        return SizedTasks(
            costs=costs,
            link=link,
            alpha_of=np.full(len(link), -1),
            units=chunks * self._overhead * size,
            before=work_before * size,
            after=work_after * size,
            waits=before + (loop - back) * n,
            waits_start=starts.astype(np.int64),
            start=costs.start(self._program.protocol),
            copiers=self._copiers,
            copier=copier,
            lags=np.asarray([*costs.lags(self._program.protocol), 0.0])[over],
        )
