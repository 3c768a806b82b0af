"""What communication libraries run, as programs: rings, one a channel, and sends straight to each receiver.

As in NCCL a channel is one thread block of each rank, which takes from the rank before and sends to the next;
chunk part p is on channel p mod channels. NCCL's kernels have no limit of steps, so these have none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from hetesynth.errors import HetesynthError
from hetesynth.model.collective import Chunk, Collective, CollectiveName
from hetesynth.model.program import BufferSlice, GpuProgram, Instruction, Program, ThreadBlock
from hetesynth.model.target import Target
from hetesynth.model.topology import Rank
from hetesynth.programs.layout import Layout
from hetesynth.programs.msccl.lower import FEWER, within

Order = Sequence[Rank]


@dataclass
class _Gpu:
    """What one rank executes, under construction. ``blocks``: by the peers sent to and taken from, and channel."""

    blocks: dict[tuple[Rank | None, Rank | None, int], tuple[int, list[Instruction]]] = field(default_factory=dict)
    copies: list[tuple[BufferSlice, BufferSlice]] = field(default_factory=list)
    scratch: int = 0

    def room(self) -> BufferSlice:
        """One more chunk of scratch."""
        self.scratch += 1
        return BufferSlice("s", self.scratch - 1)

    def add(self, send: Rank | None, take: Rank | None, channel: int, *steps: Instruction) -> tuple[int, int]:
        """More steps of a thread block: its number, and that of the first of them."""
        number, instructions = self.blocks.setdefault((send, take, channel), (len(self.blocks), []))
        instructions += steps
        return number, len(instructions) - len(steps)

    def finished(self) -> tuple[ThreadBlock, ...]:
        """The thread blocks that do something, and one for copies."""
        blocks: list[ThreadBlock] = []
        for (send, take, channel), (_, instructions) in self.blocks.items():
            ops = {x.op for x in instructions}
            if ops:  # at the ends of a chain a block exchanges nothing with one of its peers
                peers = send if "s" in ops else None, take if ops & {"r", "rrc"} else None
                blocks.append(ThreadBlock(len(blocks), *peers, channel, tuple(instructions)))
        if self.copies:
            copies = tuple(Instruction("cpy", at, to, 1) for at, to in self.copies)
            blocks.append(ThreadBlock(len(blocks), None, None, 0, copies))
        return tuple(blocks)


@dataclass(frozen=True, slots=True)
class _Move:
    """A hop of a chunk from ``at`` to ``to``, where ``added`` is added to it; or with ``onto`` it to ``added``."""

    tick: int
    wave: int
    sender: Rank
    receiver: Rank
    at: BufferSlice
    to: BufferSlice
    added: BufferSlice | None
    onto: bool = False


def ring_program(
    name: str,
    collective: Collective,
    orders: Sequence[Order],
    apart: int = 0,
    *,
    in_place: bool = False,
    fused: bool = False,
) -> Program:
    """Rings for allgather, reducescatter and allreduce; chains along the rings for broadcast and reduce. Parts of
    the buffer take all orders in turn; with ``apart`` the blocks of ranks do, so many orders on, so that a rank
    waits less for the latency of what it sent before. Channels of equal orders are neighbours, as the channels of
    a GPU take turns over its NICs. ``fused``: what arrives is added by ``rrc``."""
    builder = _Builder(collective, in_place, fused)
    carried: list[list[Chunk]] = [[] for _ in orders]
    for chunk in collective.chunks:
        turn = apart * chunk.block[0]
        carried[(chunk.part + turn) % len(orders)].append(chunk)
    alike_together = sorted(range(len(orders)), key=lambda i: (orders.index(orders[i]), i))
    for channel, (order, chunks) in enumerate((orders[i], carried[i]) for i in alike_together):
        builder.around(channel, order, chunks, [chunk.part // (apart or len(orders)) for chunk in chunks])
    return builder.program(name)


def direct_program(name: str, collective: Collective, channels: int, *, in_place: bool = False) -> Program:
    """Each chunk straight to its receiver: alltoall, gather, scatter.

    On each channel a rank has a thread block that sends to the d-th rank after it, and another that takes from the
    d-th before it: in one block a rank would send only after it took, all ranks one after the other.
    HetesynthError HS501 in place: what arrives would overwrite what is still to go.
    """
    if in_place:
        raise HetesynthError("plain sends have no program in place", code="HS501", help=FEWER)
    builder, ranks = _Builder(collective), collective.ranks
    for channel in range(channels):
        for rank, gpu in enumerate(builder.gpus):
            for distance in range(1, ranks):
                gpu.add((rank + distance) % ranks, None, channel)
                gpu.add(None, (rank - distance) % ranks, channel)
    for chunk in collective.chunks:
        (source,), (target,) = collective.pre[chunk.index], collective.post[chunk.index]
        at, goal = builder.start(source, chunk), builder.end(target, chunk)
        if source == target:
            builder.gpus[source].copies.append((at, goal))
            continue
        channel = chunk.part % channels
        builder.gpus[source].add(target, None, channel, Instruction("s", at, goal, 1))
        builder.gpus[target].add(None, source, channel, Instruction("r", at, goal, 1))
    return builder.program(name)


def tree_program(
    name: str, trees: Sequence[Sequence[Rank]], parts: int, *, in_place: bool = False, fused: bool = False
) -> Program:
    """AllReduce along trees, each the parent of every rank, the root its own: sums go up and come down. Parts of
    the buffer take the trees in turn, a channel each. A rank has a thread block for each child and one for what
    comes down. ``fused``: as in ``ring_program``."""
    gpus = [_Gpu() for _ in trees[0]]
    for part in range(parts):
        channel = part % len(trees)
        parents = trees[channel]
        # the leaves first: where ``sums[rank]`` stands goes to ``rooms[rank]`` of its parent
        children: list[list[Rank]] = [[] for _ in parents]
        root = next(rank for rank, parent in enumerate(parents) if parent == rank)
        for rank, parent in enumerate(parents):
            if rank != root:
                children[parent].append(rank)
        order = [root]
        for rank in order:
            order += children[rank]
        whole = BufferSlice("o", part)
        mine = whole if in_place else BufferSlice("i", part)
        rooms = {rank: gpus[parents[rank]].room() for rank in order[1:]}
        if not in_place:
            rooms[children[root][-1]] = whole
        sums = [rooms[kids[-1]] if kids else mine for kids in children]
        sums[root] = whole
        for rank in reversed(order):
            gpu, kids, up = gpus[rank], children[rank], parents[rank] if rank != root else None
            sent = [] if up is None else [Instruction("s", sums[rank], rooms[rank], 1)]
            arrived = Instruction("r", whole, whole, 1, None, bool(kids))
            if not kids:
                gpu.add(up, None, channel, *sent)
                gpu.add(None, up, channel, arrived)
            before, depends, onto = mine, None, in_place and rank == root
            for kid in kids:
                last = kid == kids[-1]
                room = rooms[kid]  # what arrives there and what stands before are added there, or onto the latter
                if fused:
                    steps = [Instruction("rrc", before, before if onto else room, 1, depends, True)]
                else:
                    ends = (room, before) if onto else (before, room)
                    steps = [Instruction("r", sums[kid], room, 1), Instruction("re", *ends, 1, depends, True)]
                number, first = gpu.add(up if last else None, kid, channel, *steps, *(sent if last else []))
                before, depends = mine if onto else room, (number, first + len(steps) - 1)
            for kid in kids:
                if up is not None and kid == kids[0]:
                    number, first = gpu.add(kid, up, channel, arrived, Instruction("s", whole, whole, 1))
                    depends = number, first
                else:
                    gpu.add(kid, None, channel, Instruction("s", whole, whole, 1, depends))
    return _program(name, "allreduce", None, parts, in_place, [(parts, parts)] * len(gpus), gpus)


def _program(
    name: str,
    collective: CollectiveName,
    root: Rank | None,
    chunks_per_loop: int,
    in_place: bool,
    sizes: Sequence[tuple[int, int]],
    gpus: Sequence[_Gpu],
) -> Program:
    """What was added; ``sizes``: of input and output of each rank."""
    ends = zip(sizes, gpus, strict=True)
    done = tuple(GpuProgram(r, *size, gpu.scratch, gpu.finished()) for r, (size, gpu) in enumerate(ends))
    channels = max((b.channel + 1 for gpu in done for b in gpu.thread_blocks), default=1)
    kept = (chunks_per_loop, in_place, not in_place, 0, 0, root)
    return Program(name, collective, len(done), "Simple", channels, *kept, done)


def fits(program: Program, target: Target) -> bool:
    """True when channels, thread blocks, steps and elements of ``program`` are within the limits of ``target``."""
    lengths = [[len(block.instructions) for block in gpu.thread_blocks] for gpu in program.gpus]
    return program.channels <= target.channels and within(lengths, target)


def demand_fit(program: Program, target: Target) -> None:
    """HetesynthError HS501 where it does not."""
    if not fits(program, target):
        what = f"rings on {program.channels} channels are more than a program for {target.name} may hold"
        raise HetesynthError(what, code="HS501", help=FEWER)


class _Builder:
    """The instructions of all ranks, and where chunks stand."""

    def __init__(self, collective: Collective, in_place: bool = False, fused: bool = False) -> None:
        self.collective, self.in_place, self.fused = collective, in_place, fused
        self.layout = Layout(collective, in_place=in_place)
        self.gpus = [_Gpu() for _ in range(collective.ranks)]

    def start(self, rank: Rank, chunk: Chunk) -> BufferSlice:
        """Where ``rank`` has its own part of ``chunk``."""
        source = self.layout.source(rank, chunk.index)
        if source is None:
            raise ValueError(f"rank {rank} has no part of chunk {chunk.index}")
        return source

    def end(self, rank: Rank, chunk: Chunk) -> BufferSlice:
        """Where ``rank`` gets ``chunk``."""
        target = self.layout.target(rank, chunk.index)
        if target is None:
            raise ValueError(f"rank {rank} does not get chunk {chunk.index}")
        return target

    def around(self, channel: int, order: Order, chunks: Sequence[Chunk], waves: Sequence[int]) -> None:
        """All ``chunks`` on one channel; those of a wave, each of another rank, make their hops together. In a
        tick every rank sends first, wave by wave, and takes then, so that nobody waits around the ring. The waves
        of a chain follow each other, one hop apart."""
        ends = {rank: (order[(i + 1) % len(order)], order[i - 1], channel) for i, rank in enumerate(order)}
        for rank in order:
            self.gpus[rank].add(*ends[rank])
        collective, moves = self.collective, list[_Move]()
        for chunk, wave in zip(chunks, waves, strict=True):
            tick = wave if collective.root is not None else 0
            if collective.reduces:
                moves += self._reduced(order, chunk, tick, wave)
            if collective.kind.output_blocks or not collective.reduces:
                later = len(order) - 1 if collective.reduces else 0
                moves += self._copied(order, chunk, tick + later, wave)
        moves.sort(key=lambda move: (move.tick, move.wave))
        for _, together in groupby(moves, key=lambda move: (move.tick, move.wave)):
            hops = list(together)
            for hop in hops:
                self.gpus[hop.sender].add(*ends[hop.sender], Instruction("s", hop.at, hop.to, 1))
            for hop in hops:
                if hop.added is not None and self.fused:
                    steps = [Instruction("rrc", hop.added, hop.to, 1)]
                else:
                    steps = [Instruction("r", hop.at, hop.to, 1)]
                    if hop.added is not None:
                        both = (hop.to, hop.added) if hop.onto else (hop.added, hop.to)
                        steps.append(Instruction("re", *both, 1))
                self.gpus[hop.receiver].add(*ends[hop.receiver], *steps)

    def _reduced(self, order: Order, chunk: Chunk, tick: int, wave: int) -> Iterator[_Move]:
        """The sum of ``chunk`` on its way to where it is wanted, or to the rank with the number of its block."""
        collective, ranks = self.collective, len(order)
        goal = collective.root if collective.root is not None else chunk.block[0]
        first = order.index(goal) + 1
        at = self.start(order[first % ranks], chunk)
        for hop in range(ranks - 1):
            sender, receiver = (order[(first + hop + i) % ranks] for i in (0, 1))
            ends = receiver == goal or collective.kind.composed
            added = self.start(receiver, chunk)
            onto = ends and not self.fused and added == self.end(receiver, chunk)  # in place
            to = self.end(receiver, chunk) if ends and not onto else self.gpus[receiver].room()
            yield _Move(tick + hop, wave, sender, receiver, at, to, added, onto)
            at = added if onto else to

    def _copied(self, order: Order, chunk: Chunk, tick: int, wave: int) -> Iterator[_Move]:
        """``chunk`` from its origin past all other ranks."""
        collective, ranks = self.collective, len(order)
        origin = chunk.block[0] if collective.root is None else collective.root
        if collective.kind.composed:
            at = self.end(origin, chunk)
        else:
            at = self.start(origin, chunk)
            if origin in collective.post[chunk.index]:
                goal = self.end(origin, chunk)
                self.gpus[origin].copies += [(at, goal)] if at != goal else []
        first = order.index(origin)
        for hop in range(ranks - 1):
            sender, receiver = (order[(first + hop + i) % ranks] for i in (0, 1))
            to = self.end(receiver, chunk)
            yield _Move(tick + hop, wave, sender, receiver, at, to, None)
            at = to

    def program(self, name: str) -> Program:
        """What was added."""
        collective, sizes = self.collective, [*map(self.layout.sizes, range(self.collective.ranks))]
        loop = self.layout.chunks_per_loop
        return _program(name, collective.name, collective.root, loop, self.in_place, sizes, self.gpus)
