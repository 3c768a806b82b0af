"""An MSCCL++ plan as tasks: thread blocks in order, puts over memory and port channels, signals and barriers.

The rules are in docs/model.md. Nothing loops, as buffers are as large as the message. Tasks are in an order in
which they can run; semaphores are taken in it too."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from hetesynth.model.cost import Costs
from hetesynth.model.plan import CHANNEL_TYPES, ChannelType, LocalSlice, Plan, PlanOperation, Slice
from hetesynth.model.program import Buffer, Protocol
from hetesynth.model.topology import Rank
from hetesynth.simulate.graph_builder import Links, SizedTasks, TaskList

Cell = tuple[Rank, Buffer, int]
"""The first chunk of a slice: whose buffer, which, where."""


@dataclass(frozen=True, slots=True)
class PlanTask:
    """The operation of a plan, by indices, that a task stands for, or a slice of it that moves ``count`` chunks.

    ``after``: the tasks of its thread block that must end before this one may begin. ``peers``: whom it signals or
    waits for.
    """

    gpu: int
    block: int
    step: int
    after: tuple[int, ...]
    src: Cell | None = None
    dst: Cell | None = None
    count: int = 0
    peers: tuple[Rank, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanTasks:
    """Task i is ``places[i]``; a unit is a chunk."""

    tasks: SizedTasks
    places: tuple[PlanTask, ...]


def plan_tasks(plan: Plan, costs: Costs) -> PlanTasks:
    """The tasks of ``plan``. Raises ValueError where it puts over a pair without a link, or never ends."""
    return _Execution(plan, costs).run()


@dataclass(slots=True, eq=False)
class _Block:
    """A thread block on its way. ``copier``: its resource, where its rate is limited. ``after``: what its next
    operation waits for."""

    gpu: int
    index: int
    operations: tuple[PlanOperation, ...]
    copier: int = -1
    after: tuple[int, ...] = ()
    done: int = 0


@dataclass(slots=True, eq=False)
class _End:
    """The end of a channel at ``gpu``.

    Of a port channel, ``last`` is the put that its engine took last, ``fresh`` the same until a signal tells of
    it. ``inbox``: signals not yet waited for. ``carries``: whether ``link`` leads to the peer; signals also go
    where only a link back exists, with its latency.
    """

    gpu: Rank
    peer: Rank
    kind: ChannelType
    link: int
    carries: bool = True
    far: _End | None = None
    last: tuple[int, ...] = ()
    fresh: int | None = None
    inbox: deque[int] = field(default_factory=deque)


class _Execution:
    """Thread blocks as coroutines, which run until they must wait."""

    def __init__(self, plan: Plan, costs: Costs) -> None:
        self._plan, self._costs = plan, costs
        protocol: Protocol = "LL" if plan.protocol == "LL" else "Simple"
        self._blocks = [
            _Block(g, b, block.operations) for g, gpu in enumerate(plan.gpus) for b, block in enumerate(gpu.blocks)
        ]
        copiers: list[tuple[str, float]] = []
        for each in self._blocks:
            rate = costs.copy_rate(each.gpu, protocol)
            if rate is not None:
                each.copier = len(copiers)
                copiers.append((f"thread block {each.index} of gpu {each.gpu}", rate))
        self._tasks = TaskList(costs, costs.launch, copiers)
        self._places: list[PlanTask] = []
        self._links = Links(costs)
        # the k-th channel to a peer meets the peer's k-th back and takes its turn among equal links
        self._ends: dict[tuple[int, ChannelType, int], _End] = {}
        between: dict[tuple[Rank, Rank, ChannelType], list[_End]] = defaultdict(list)
        for g, gpu in enumerate(plan.gpus):
            for kind in CHANNEL_TYPES:
                for c, peer in enumerate(gpu.peers(kind)):
                    same = between[g, peer, kind]
                    forward = (g, peer) in self._links or (peer, g) not in self._links
                    link = self._links.fastest(g, peer, len(same)) if forward else self._links.fastest(peer, g)
                    self._ends[g, kind, c] = _End(g, peer, kind, link, forward)
                    same.append(self._ends[g, kind, c])
        for (g, peer, kind), ends in between.items():
            for end, far in zip(ends, between.get((peer, g, kind), []), strict=False):
                end.far = far
        self._put: dict[tuple[Rank, Rank], int] = {}  # over memory: the last put that no signal has told of yet
        self._at_barrier: dict[tuple[int, int], list[_Block]] = defaultdict(list)
        self._released: dict[tuple[int, int], deque[tuple[int, ...]]] = defaultdict(deque)
        for g, gpu in enumerate(plan.gpus):
            for s, start in enumerate(gpu.semaphores):
                self._released[g, s].extend([()] * start)

    def run(self) -> PlanTasks:
        running = [self._steps(block) for block in self._blocks]
        before, done = -1, 0
        while done > before:
            for steps in running:
                next(steps, None)
            before, done = done, sum(block.done for block in self._blocks)
        if any(block.done < len(block.operations) for block in self._blocks):
            raise ValueError("the plan never ends: some thread blocks wait for ever")
        return PlanTasks(self._tasks.sized(), tuple(self._places))

    # -- operations

    def _steps(self, block: _Block) -> Iterator[None]:
        """All operations; yields where it must wait for what other thread blocks have not done yet."""
        for x in block.operations:
            ends = self._ends_of(block, x)
            queues = [self._released[block.gpu, s] for s in x.semaphores]
            match x.op:
                case "nop":
                    pass
                case "barrier":
                    waiting = self._at_barrier[block.gpu, x.barrier or 0]
                    waiting.append(block)
                    if len(waiting) >= (x.blocks or 1):
                        meeting = self._local(block, [task for member in waiting for task in member.after])
                        for one in waiting:
                            one.after = (meeting if one is block else self._local(one, [*one.after, meeting]),)
                        waiting.clear()
                    while block in waiting:
                        yield
                case "wait" | "rlxwait":
                    while any(len(end.inbox) < ends.count(end) for end in ends):
                        yield
                    signals = [end.inbox.popleft() for end in ends]
                    block.after = (self._local(block, [*block.after, *signals], tuple(end.peer for end in ends)),)
                case "signal" | "rlxsignal":
                    for end in ends:
                        self._signal(block, end)
                case "flush":
                    self._flush(block, ends)
                case "sem_release":
                    block.after = (self._local(block, block.after),)
                    for queue in queues:
                        queue.append(block.after)
                case "sem_acquire":
                    while not all(queues):
                        yield
                    released = [task for queue in queues for task in queue.popleft()]
                    block.after = (self._local(block, [*block.after, *released]),)
                case "put" | "pws" | "pwsf" if x.channel_type == "port":
                    self._port_puts(block, x, ends)
                case _:
                    self._move(block, x)
            block.done += 1

    def _signal(self, block: _Block, end: _End) -> None:
        waits = (*block.after, *end.last)
        put = end.fresh if end.kind == "port" else self._put.pop((end.gpu, end.peer), None)
        end.fresh = None
        if put is not None:
            task = self._local(block, waits, (end.peer,))
        else:
            task = self._placed(self._tasks.add(waits, alpha_of=end.link, units=0.0), block, peers=(end.peer,))
        if end.far is not None:
            end.far.inbox.append(task)

    def _flush(self, block: _Block, ends: Sequence[_End]) -> None:
        block.after = (self._local(block, [*block.after, *(put for end in ends for put in end.last)]),)

    def _port_puts(self, block: _Block, x: PlanOperation, ends: Sequence[_End]) -> None:
        for end, src, dst in zip(ends, x.src, x.dst, strict=True):
            if not end.carries:
                raise ValueError(f"it puts from {end.gpu} to {end.peer}, where the topology has no link")
            waits = (*block.after, *end.last)
            task = self._tasks.add(waits, link=end.link, alpha_of=end.link, units=src.size)
            self._placed(task, block, self._cell(block, x, src), self._cell(block, x, dst), src.size)
            end.last, end.fresh = (task,), task
            if x.op != "put":
                self._signal(block, end)
        if x.op == "pwsf":
            self._flush(block, ends)

    def _move(self, block: _Block, x: PlanOperation) -> None:
        """Add the tasks of what the threads of the block copy and add: from peers, then here, then to peers."""
        sources = [self._cell(block, x, part) for part in x.src]
        targets = [self._cell(block, x, part) for part in x.dst]
        count = x.src[0].size
        if x.op in ("put", "get", "copy"):
            parts = zip(sources, targets, (part.size for part in x.src), strict=True)
            block.after = tuple(self._transfer(block, *part) for part in parts)
            return
        home = (block.gpu, targets[0][1], targets[0][2])
        came = tuple(self._transfer(block, s, home, count) for s in sources if s[0] != block.gpu)
        block.after = came or block.after
        work = self._costs.gamma[block.gpu] * count * max(1, len(sources) - 1)
        block.after = (
            self._placed(self._tasks.add(block.after, after=work), block, sources[0], targets[0], count),
        )
        sent = tuple(self._transfer(block, targets[0], t, count) for t in targets if t[0] != block.gpu)
        block.after = sent or block.after

    def _transfer(self, block: _Block, src: Cell, dst: Cell, count: int) -> int:
        """Chunks from one GPU to another, or within one; its number."""
        if src[0] == dst[0]:
            task = self._tasks.add(block.after, after=self._costs.copy[block.gpu] * count)
        else:
            link = self._links.fastest(src[0], dst[0])
            task = self._tasks.add(block.after, link=link, alpha_of=link, units=count, copier=block.copier)
            if src[0] == block.gpu:
                self._put[src[0], dst[0]] = task
        return self._placed(task, block, src, dst, count)

    # -- parts of an operation

    def _local(self, block: _Block, waits: Iterable[int], peers: tuple[Rank, ...] = ()) -> int:
        """A task that only waits; its number."""
        return self._placed(self._tasks.add(tuple(dict.fromkeys(waits))), block, peers=peers)

    def _placed(
        self,
        task: int,
        block: _Block,
        src: Cell | None = None,
        dst: Cell | None = None,
        count: int = 0,
        peers: tuple[Rank, ...] = (),
    ) -> int:
        self._places.append(PlanTask(block.gpu, block.index, block.done, block.after, src, dst, count, peers))
        return task

    def _ends_of(self, block: _Block, x: PlanOperation) -> Sequence[_End]:
        kind = x.channel_type or "memory"
        numbers = self._plan.gpus[block.gpu].blocks[block.index].channels(kind)
        return [self._ends[block.gpu, kind, numbers[c]] for c in x.channels]

    def _cell(self, block: _Block, x: PlanOperation, part: Slice) -> Cell:
        if isinstance(part, LocalSlice):
            return block.gpu, part.buffer, part.index
        gpu = self._plan.gpus[block.gpu]
        numbers = gpu.blocks[block.index].buffers(x.channel_type or "memory")
        remote = gpu.remote_buffers[numbers[part.buffer_id]]
        return remote.rank, remote.buffer, part.index
