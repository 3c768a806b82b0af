"""A second executor of MSCCL++ plans, made to go wrong: random orders, real numbers, no happens-before.

Within a segment of a thread block (up to the next nop or barrier) copies and sums happen in any order at any time,
whatever signals and waits stand between them. Thread i handles entry i of signals, waits, flushes, semaphores and
port puts: each thread takes its entries in order, different threads run apart. A port channel does what threads
push to it in the order of pushing, some time later, in some runs much later. Kernels start late: what arrives
before is lost. When one ends its output is taken and its memory overwritten. ``outcome`` says "right", "wrong" or
"stuck". It shares no code with the judge.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from hetesynth.model.plan import LocalSlice, Plan, PlanBlock, PlanOperation, Slice

GARBAGE = -(10**9)
Job = Callable[[], None]
Task = Callable[[], bool]
"""Tries to do a thread's next entry; whether it could."""


@dataclass
class Block:
    """A thread block under way: where it stands, and what its threads still have to do."""

    gpu: int
    code: PlanBlock
    at: int = 0
    end: int = 0
    jobs: list[Job] = field(default_factory=list)
    threads: dict[int, deque[Task]] = field(default_factory=dict)
    loaded: bool = False
    barrier: bool = False
    done: bool = False

    def go_on(self) -> None:
        """Past the meeting of its threads."""
        self.at, self.loaded, self.barrier = self.end + 1, False, False


class Chaos:
    """A run of ``plan`` in an order that ``seed`` draws."""

    def __init__(self, plan: Plan, root: int | None, seed: int) -> None:
        self.plan, self.root, self.rng = plan, root, random.Random(seed)
        self.haste = self.rng.choice((0.02, 0.2))  # how soon port channels do what was pushed
        self.memory: list[dict[tuple[str, int], int]] = [{} for _ in plan.gpus]
        self.started = [False] * plan.ranks
        self.ended = [False] * plan.ranks
        self.taken: list[list[int]] = [[] for _ in plan.gpus]
        self.tokens: dict[tuple[int, int, str, int], int] = {}
        self.queues: dict[tuple[int, int, int], deque[Job]] = {}
        self.semaphores = [list(gpu.semaphores) for gpu in plan.gpus]
        self.blocks = [Block(g, block) for g, gpu in enumerate(plan.gpus) for block in gpu.blocks]

    # -- memory: buffers of one GPU overlap in place

    def spot(self, owner: int, seen_from: int, buffer: str, index: int) -> tuple[str, int]:
        if not self.plan.in_place or buffer == "s":
            return buffer, index
        name, gpu = self.plan.collective, self.plan.gpus[owner]
        if name == "allgather" and buffer == "i":
            return "o", seen_from * gpu.input_chunks + index
        if name == "reducescatter":
            return "o", index + (seen_from * gpu.output_chunks if buffer == "o" else 0)
        return "o", index

    def reset(self, g: int, *, contents: bool) -> None:
        gpu = self.plan.gpus[g]
        memory = self.memory[g]
        for buffer, size in (("o", gpu.output_chunks), ("s", gpu.scratch_chunks), ("i", gpu.input_chunks)):
            for index in range(size):
                given = contents and buffer == "i" and self.has_input(g)
                memory[self.spot(g, g, buffer, index)] = value(g, index) if given else GARBAGE

    def has_input(self, g: int) -> bool:
        return self.plan.collective not in ("broadcast", "scatter") or g == self.root

    def place(self, block: Block, operation: PlanOperation, part: Slice) -> tuple[int, str, int]:
        if isinstance(part, LocalSlice):
            return block.gpu, part.buffer, part.index
        gpu = self.plan.gpus[block.gpu]
        remote = gpu.remote_buffers[block.code.buffers(operation.channel_type or "memory")[part.buffer_id]]
        return remote.rank, remote.buffer, part.index

    def pieces(self, block: Block, operation: PlanOperation) -> Iterator[Job]:
        """What the operation does, chunk by chunk."""
        pairs: list[tuple[tuple[Slice, ...], tuple[Slice, ...]]] = [(operation.src, operation.dst)]
        if operation.op in ("put", "get", "copy", "pws", "pwsf"):
            pairs = [((a,), (b,)) for a, b in zip(operation.src, operation.dst, strict=True)]
        for sources, targets in pairs:
            for k in range(sources[0].size):
                yield partial(self.move, block, operation, sources, targets, k)

    def move(
        self, block: Block, op: PlanOperation, sources: tuple[Slice, ...], targets: tuple[Slice, ...], k: int
    ) -> None:
        total = 0
        for part in sources:
            owner, buffer, index = self.place(block, op, part)
            total += self.memory[owner].get(self.spot(owner, block.gpu, buffer, index + k), GARBAGE)
        for part in targets:
            owner, buffer, index = self.place(block, op, part)
            self.memory[owner][self.spot(owner, block.gpu, buffer, index + k)] = total

    # -- channels

    def far(self, g: int, kind: str, channel: int) -> tuple[int, int, str, int]:
        """Whose tokens a signal on the channel adds to."""
        peers = self.plan.gpus[g].memory_peers if kind == "memory" else self.plan.gpus[g].port_peers
        return peers[channel], g, kind, sum(p == peers[channel] for p in peers[:channel])

    def mine(self, g: int, kind: str, channel: int) -> tuple[int, int, str, int]:
        peer, _, _, number = self.far(g, kind, channel)
        return g, peer, kind, number

    def signal(self, key: tuple[int, int, str, int]) -> None:
        self.tokens[key] = self.tokens.get(key, 0) + 1

    # -- running

    def run(self) -> str:
        idle = 0
        while not all(self.ended):
            idle = 0 if self.step() else idle + 1
            if idle > 400 + 40 * len(self.blocks):
                return "stuck"
        if any(self.tokens.values()) or self.semaphores != [list(gpu.semaphores) for gpu in self.plan.gpus]:
            return "wrong"
        return "right" if all(self.right(g) for g in range(self.plan.ranks)) else "wrong"

    def step(self) -> bool:
        choice = self.rng.random()
        if choice < 0.1:
            return self.start_or_end(self.rng.randrange(self.plan.ranks))
        if choice < 0.1 + self.haste:
            waiting = sorted(key for key, queue in self.queues.items() if queue)
            if waiting:
                self.queues[self.rng.choice(waiting)].popleft()()
            return bool(waiting)
        block = self.rng.choice(self.blocks)
        return self.started[block.gpu] and self.advance(block)

    def start_or_end(self, g: int) -> bool:
        if not self.started[g]:
            self.started[g] = True
            self.reset(g, contents=True)
            return True
        busy = not all(b.done for b in self.blocks if b.gpu == g)
        if self.ended[g] or busy:
            return False
        self.ended[g] = True
        outputs = range(self.plan.gpus[g].output_chunks)
        self.taken[g] = [self.memory[g][self.spot(g, g, "o", k)] for k in outputs]
        self.reset(g, contents=False)
        return True

    def advance(self, block: Block) -> bool:
        if block.done:
            return False
        if not block.loaded:
            self.load(block)
        if block.jobs and self.rng.random() < 0.6:
            block.jobs.pop(self.rng.randrange(len(block.jobs)))()
            return True
        for thread in self.rng.sample(sorted(block.threads), len(block.threads)):
            if block.threads[thread][0]():
                block.threads[thread].popleft()
                if not block.threads[thread]:
                    del block.threads[thread]
                return True
        return not block.jobs and not block.threads and self.meet(block)

    def load(self, block: Block) -> None:
        """What all threads and what single threads do up to where they next meet."""
        block.loaded = True
        block.end = block.at
        for operation in block.code.operations[block.at :]:
            if operation.op in ("nop", "barrier"):
                return
            block.end += 1
            moves = operation.op in ("copy", "re", "res", "rre", "rres", "get", "put")
            if moves and operation.channel_type != "port":
                block.jobs += self.pieces(block, operation)
                continue
            entries = operation.semaphores if operation.op.startswith("sem_") else operation.channels
            flushed = len(operation.dst) if operation.op == "flush" else len(entries)
            for thread in range(min(len(entries), flushed)):
                block.threads.setdefault(thread, deque()).extend(self.tasks(block, operation, thread))

    def meet(self, block: Block) -> bool:
        if block.end == len(block.code.operations):
            block.done = True
            return True
        operation = block.code.operations[block.end]
        if operation.op == "barrier":
            return self.pass_barrier(block, operation)
        block.go_on()
        return True

    def tasks(self, block: Block, operation: PlanOperation, thread: int) -> Iterator[Task]:
        """What ``thread`` does for its entry of the operation."""
        op, kind, gpu = operation.op, operation.channel_type or "memory", block.gpu
        if op in ("sem_acquire", "sem_release"):
            change = -1 if op == "sem_acquire" else 1
            yield partial(self.semaphore, gpu, operation.semaphores[thread], change)
            return
        channel = block.code.channels(kind)[operation.channels[thread]]
        if op in ("put", "pws", "pwsf"):
            yield partial(self.port_put, block, operation, channel, thread)
        if op in ("signal", "rlxsignal", "pws", "pwsf"):
            yield partial(self.give, gpu, kind, channel)
        if op in ("wait", "rlxwait"):
            yield partial(self.take, self.mine(gpu, kind, channel))
        if op in ("flush", "pwsf"):
            yield from self.flush(gpu, channel)

    def semaphore(self, gpu: int, number: int, change: int) -> bool:
        values = self.semaphores[gpu]
        if values[number] + change < 0:
            return False
        values[number] += change
        return True

    def give(self, gpu: int, kind: str, channel: int) -> bool:
        job = partial(self.signal, self.far(gpu, kind, channel))
        if kind == "port":
            self.queue(gpu, channel).append(job)
        else:
            job()
        return True

    def take(self, key: tuple[int, int, str, int]) -> bool:
        if not self.tokens.get(key):
            return False
        self.tokens[key] -= 1
        return True

    def flush(self, gpu: int, channel: int) -> Iterator[Task]:
        """Pushes a mark and waits for it to come out at the other end."""
        passed: list[bool] = []
        yield lambda: self.queue(gpu, channel).append(lambda: passed.append(True)) is None
        yield lambda: bool(passed)

    def port_put(self, block: Block, operation: PlanOperation, channel: int, thread: int) -> bool:
        parts = (operation.src[thread],), (operation.dst[thread],)
        pieces = [partial(self.move, block, operation, *parts, k) for k in range(parts[0][0].size)]
        self.queue(block.gpu, channel).extend(pieces)
        return True

    def queue(self, gpu: int, channel: int) -> deque[Job]:
        peer = self.plan.gpus[gpu].port_peers[channel]
        return self.queues.setdefault((gpu, peer, channel), deque())

    def pass_barrier(self, block: Block, operation: PlanOperation) -> bool:
        """The last to come lets all the others pass."""
        if block.barrier:
            return False
        block.barrier = True
        here = [
            b
            for b in self.blocks
            if b.gpu == block.gpu and b.barrier and b.code.operations[b.end].barrier == operation.barrier
        ]
        if len(here) == operation.blocks:
            for b in here:
                b.go_on()
        return True

    # -- the answer

    def right(self, g: int) -> bool:
        plan, got = self.plan, self.taken[g]
        n, root = plan.ranks, self.root or 0
        inputs = plan.gpus[g].input_chunks
        gathered = [value(r, k) for r in range(n) for k in range(inputs)]
        size = len(got)
        match plan.collective:
            case "allgather":
                meant = gathered
            case "gather":
                meant = gathered if g == root else got
            case "alltoall":
                meant = [value(r, g * (inputs // n) + k) for r in range(n) for k in range(inputs // n)]
            case "broadcast":
                meant = [value(root, k) for k in range(size)]
            case "scatter":
                meant = [value(root, g * size + k) for k in range(size)]
            case "reducescatter":
                meant = [sum(value(r, g * size + k) for r in range(n)) for k in range(size)]
            case name:
                meant = [sum(value(r, k) for r in range(n)) for k in range(size)]
                meant = got if name == "reduce" and g != root else meant
        return got == meant


def value(rank: int, index: int) -> int:
    """The input of ``rank``: no two sums of different inputs are equal by chance."""
    return 7919 * (rank + 1) ** 3 + 104729 * (index + 1) ** 2 + rank * index


def outcome(plan: Plan, root: int | None = None, seed: int = 0) -> str:
    """One random run."""
    return Chaos(plan, root, seed).run()
