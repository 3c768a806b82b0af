"""What a program or an MSCCL++ plan costs, for the report: thread blocks, steps, channels, dependences."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from hetesynth.model.plan import Plan, RemoteSlice
from hetesynth.model.program import Program
from hetesynth.model.topology import Rank


@dataclass(frozen=True, slots=True)
class ProgramSummary:
    """Counts over a program.

    ``channels_per_link``: for every pair of ranks that communicate, its channels. ``dependences``: waits of a
    step for another thread block; ``nops``: those that need a step of their own. ``thread_blocks`` and ``steps``
    are of all GPUs together; ``channels_per_gpu``: distinct channels that a GPU sends or receives on.
    """

    max_thread_blocks: int
    max_steps: int
    channels: int
    channels_per_link: tuple[tuple[tuple[Rank, Rank], int], ...]
    max_scratch_chunks: int
    instructions: tuple[tuple[str, int], ...]
    dependences: int
    nops: int
    thread_blocks: int = 0
    steps: int = 0
    thread_blocks_per_gpu: tuple[int, ...] = ()
    channels_per_gpu: tuple[int, ...] = ()

    @property
    def min_channels_per_link(self) -> int:
        """Channels of the narrowest pair that communicates; 0 when none does."""
        return min((count for _, count in self.channels_per_link), default=0)

    @property
    def max_channels_per_link(self) -> int:
        """Channels of the widest pair; 0 when none communicates."""
        return max((count for _, count in self.channels_per_link), default=0)


def program_summary(program: Program) -> ProgramSummary:
    """The counts of ``program``."""
    channels: dict[tuple[Rank, Rank], set[int]] = defaultdict(set)
    ops: Counter[str] = Counter()
    dependences = 0
    for gpu in program.gpus:
        for tb in gpu.thread_blocks:
            if tb.send_peer is not None:
                channels[gpu.rank, tb.send_peer].add(tb.channel)
            ops.update(step.op for step in tb.instructions)
            dependences += sum(step.depends is not None for step in tb.instructions)
    return ProgramSummary(
        max_thread_blocks=max((len(gpu.thread_blocks) for gpu in program.gpus), default=0),
        max_steps=max((len(tb.instructions) for gpu in program.gpus for tb in gpu.thread_blocks), default=0),
        channels=program.channels,
        channels_per_link=tuple((pair, len(channels[pair])) for pair in sorted(channels)),
        max_scratch_chunks=max((gpu.scratch_chunks for gpu in program.gpus), default=0),
        instructions=tuple(sorted(ops.items())),
        dependences=dependences,
        nops=ops["nop"],
        thread_blocks=sum(len(gpu.thread_blocks) for gpu in program.gpus),
        steps=sum(ops.values()),
        thread_blocks_per_gpu=tuple(len(gpu.thread_blocks) for gpu in program.gpus),
        channels_per_gpu=tuple(
            len({tb.channel for tb in gpu.thread_blocks if (tb.send_peer, tb.recv_peer) != (None, None)})
            for gpu in program.gpus
        ),
    )


def plan_summary(plan: Plan) -> ProgramSummary:
    """The counts of ``plan``: a step is an operation, a dependence a barrier of thread blocks, a link a pair of
    ranks with a put from the first to the second."""
    operations: Counter[str] = Counter()
    pairs: set[tuple[Rank, Rank]] = set()
    for gpu in plan.gpus:
        for block in gpu.blocks:
            operations.update(operation.op for operation in block.operations)
            for operation in block.operations:
                if operation.channel_type is not None:
                    numbers = block.buffers(operation.channel_type)
                    puts = (part for part in operation.dst if isinstance(part, RemoteSlice))
                    pairs |= {(gpu.rank, gpu.remote_buffers[numbers[put.buffer_id]].rank) for put in puts}
    blocks = tuple(len(gpu.blocks) for gpu in plan.gpus)
    channels = tuple(len(gpu.memory_peers) + len(gpu.port_peers) for gpu in plan.gpus)
    return ProgramSummary(
        max_thread_blocks=max(blocks, default=0),
        max_steps=max((len(block.operations) for gpu in plan.gpus for block in gpu.blocks), default=0),
        channels=max(channels, default=0),
        channels_per_link=tuple((pair, 1) for pair in sorted(pairs)),
        max_scratch_chunks=max((gpu.scratch_chunks for gpu in plan.gpus), default=0),
        instructions=tuple(sorted(operations.items())),
        dependences=operations["barrier"],
        nops=operations["nop"],
        thread_blocks=sum(blocks),
        steps=sum(operations.values()),
        thread_blocks_per_gpu=blocks,
        channels_per_gpu=channels,
    )
