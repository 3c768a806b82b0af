"""What an MSCCL++ plan costs, in the words of ``ProgramSummary``, so that targets stand side by side in reports.

In: a plan. Out: counts. A step is an operation, a dependence a barrier of thread blocks, a link a pair of ranks
with a put from the first to the second.
"""

from __future__ import annotations

from collections import Counter

from hetesynth.model.plan import GpuPlan, Plan, PlanBlock, PlanOperation, RemoteSlice
from hetesynth.model.topology import Rank
from hetesynth.programs.msccl.summary import ProgramSummary


def plan_summary(plan: Plan) -> ProgramSummary:
    """Count ``plan``."""
    operations: Counter[str] = Counter()
    pairs: set[tuple[Rank, Rank]] = set()
    for gpu in plan.gpus:
        for block in gpu.blocks:
            operations.update(operation.op for operation in block.operations)
            for operation in block.operations:
                pairs |= {(gpu.rank, peer) for peer in _written(gpu, block, operation)}
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


def _written(gpu: GpuPlan, block: PlanBlock, operation: PlanOperation) -> set[Rank]:
    """The peers that the operation writes to."""
    kind = operation.channel_type
    if kind is None:
        return set()
    numbers = block.buffers(kind)
    return {gpu.remote_buffers[numbers[p.buffer_id]].rank for p in operation.dst if isinstance(p, RemoteSlice)}
