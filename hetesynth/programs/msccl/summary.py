"""What a program costs, for the report: thread blocks, steps, channels, dependences.

In: a program. Out: counts. Knows nothing of how it was made.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from hetesynth.model.program import GpuProgram, Program
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
    """Count ``program``."""
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
        channels_per_gpu=tuple(len(_channels(gpu)) for gpu in program.gpus),
    )


def _channels(gpu: GpuProgram) -> set[int]:
    return {tb.channel for tb in gpu.thread_blocks if tb.send_peer is not None or tb.recv_peer is not None}
