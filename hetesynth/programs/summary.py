"""What a program or an MSCCL++ plan costs, for the report: thread blocks, steps, channels, dependences."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from hetesynth.model.plan import Plan, RemoteSlice
from hetesynth.model.program import Program
from hetesynth.model.topology import Rank


@dataclass(frozen=True, slots=True)
class ProgramSummary:
    """Counts over a program.

    ``channels_per_link``: for every pair of ranks that communicate, its channels. ``dependences``: waits of a
    step for another thread block. ``thread_blocks`` and ``steps`` are of all GPUs together.
    """

    max_thread_blocks: int
    max_steps: int
    channels: int
    channels_per_link: tuple[tuple[tuple[Rank, Rank], int], ...]
    max_scratch_chunks: int
    instructions: tuple[tuple[str, int], ...]
    dependences: int
    thread_blocks: int
    steps: int

    @property
    def max_channels_per_link(self) -> int:
        """Channels of the widest pair; 0 when none communicates."""
        return max((count for _, count in self.channels_per_link), default=0)


def program_summary(program: Program) -> ProgramSummary:
    """The counts of ``program``."""
    channels: dict[tuple[Rank, Rank], set[int]] = defaultdict(set)
    dependences = 0
    for gpu in program.gpus:
        for tb in gpu.thread_blocks:
            if tb.send_peer is not None:
                channels[gpu.rank, tb.send_peer].add(tb.channel)
            dependences += sum(step.depends is not None for step in tb.instructions)
    links = {pair: len(of) for pair, of in channels.items()}
    ops = [[[step.op for step in tb.instructions] for tb in gpu.thread_blocks] for gpu in program.gpus]
    return _summary(ops, program.channels, links, [gpu.scratch_chunks for gpu in program.gpus], dependences)


def plan_summary(plan: Plan) -> ProgramSummary:
    """The counts of ``plan``: a step is an operation, a dependence a barrier of thread blocks, a link a pair of
    ranks with a put from the first to the second."""
    links: dict[tuple[Rank, Rank], int] = {}
    for gpu in plan.gpus:
        for block in gpu.blocks:
            for operation in block.operations:
                if operation.channel_type is not None:
                    numbers = block.buffers(operation.channel_type)
                    puts = (part for part in operation.dst if isinstance(part, RemoteSlice))
                    links.update(((gpu.rank, gpu.remote_buffers[numbers[put.buffer_id]].rank), 1) for put in puts)
    ops = [[[operation.op for operation in block.operations] for block in gpu.blocks] for gpu in plan.gpus]
    channels = max((len(gpu.memory_peers) + len(gpu.port_peers) for gpu in plan.gpus), default=0)
    return _summary(ops, channels, links, [gpu.scratch_chunks for gpu in plan.gpus])


def _summary(
    ops: Sequence[Sequence[Sequence[str]]],
    channels: int,
    links: dict[tuple[Rank, Rank], int],
    scratch: Sequence[int],
    dependences: int | None = None,
) -> ProgramSummary:
    """``ops``: by GPU and thread block. Without ``dependences``: as many as barriers."""
    blocks = [block for of_gpu in ops for block in of_gpu]
    counts = Counter(op for block in blocks for op in block)
    return ProgramSummary(
        max_thread_blocks=max(map(len, ops), default=0),
        max_steps=max(map(len, blocks), default=0),
        channels=channels,
        channels_per_link=tuple(sorted(links.items())),
        max_scratch_chunks=max(scratch, default=0),
        instructions=tuple(sorted(counts.items())),
        dependences=counts["barrier"] if dependences is None else dependences,
        thread_blocks=len(blocks),
        steps=counts.total(),
    )
