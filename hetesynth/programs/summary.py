"""What a program or an MSCCL++ plan costs, for the report: thread blocks, steps, channels, dependences."""

from collections import Counter
from dataclasses import dataclass

from hetesynth.model import column
from hetesynth.model.plan import Plan, RemoteSlice
from hetesynth.model.program import OPS, Program
from hetesynth.model.step_table import table_of, table_of_all
from hetesynth.model.table import Table
from hetesynth.model.topology import Rank


@dataclass(frozen=True, slots=True)
class ProgramSummary:
    """Counts over a program. ``channels_per_link``: for every pair of ranks that communicate, its channels.
    ``dependences``: waits of a step for another thread block. ``thread_blocks`` and ``steps`` are of all GPUs
    together."""

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
        """The channels of the widest pair; 0 when none communicates."""
        return max((count for _, count in self.channels_per_link), default=0)


def program_summary(of: Program | Plan) -> ProgramSummary:
    """The counts of a program, or of a plan: there a step is an operation, a dependence a barrier of blocks,
    a link a pair of ranks with a put from the first to the second."""
    ops: list[list[list[str]]]
    if isinstance(of, Program):
        tables = [[table_of(block.instructions)[:, column.OP] for block in gpu.thread_blocks] for gpu in of.gpus]
        ops = [[[OPS[op] for op in rows.tolist()] for rows in of_gpu] for of_gpu in tables]
        sends = {(g.rank, b.send_peer, b.channel) for g in of.gpus for b in g.thread_blocks}
        links = Counter((src, dst) for src, dst, _ in sends if dst is not None)
        channels = of.channels
        dependences = int((table_of_all(of)[0][:, column.BLOCK] >= 0).sum())
    else:
        ops = [[[x.op for x in block.operations] for block in gpu.blocks] for gpu in of.gpus]
        puts = {
            (gpu.rank, gpu.remote_buffers[block.buffers(x.channel_type)[part.buffer_id]].rank)
            for gpu in of.gpus
            for block in gpu.blocks
            for x in block.operations
            for part in x.dst
            if isinstance(part, RemoteSlice) and x.channel_type is not None
        }
        links = Counter(puts)
        channels = max((len(gpu.memory_peers) + len(gpu.port_peers) for gpu in of.gpus), default=0)
        dependences = sum(op == "barrier" for of_gpu in ops for block in of_gpu for op in block)
    blocks = [block for of_gpu in ops for block in of_gpu]
    counts = Counter(op for block in blocks for op in block)
    return ProgramSummary(
        max_thread_blocks=max(map(len, ops), default=0),
        max_steps=max(map(len, blocks), default=0),
        channels=channels,
        channels_per_link=tuple(sorted(links.items())),
        max_scratch_chunks=max((gpu.scratch_chunks for gpu in of.gpus), default=0),
        instructions=tuple(sorted(counts.items())),
        dependences=dependences,
        thread_blocks=len(blocks),
        steps=counts.total(),
    )


def table_summary(table: Table) -> ProgramSummary:
    """The counts of a table: a step is a send or a receive, a link a pair of ranks, and a rank has one thread."""
    messages = [m for messages in table.rounds for m in messages]
    steps = Counter(rank for m in messages for rank in (m.src, m.dst))
    ops = {"send": len(messages), "add": sum(m.added is not None for m in messages), "copy": len(table.copies)}
    return ProgramSummary(
        max_thread_blocks=1,
        max_steps=max(steps.values(), default=0),
        channels=1,
        channels_per_link=tuple((pair, 1) for pair in sorted({(m.src, m.dst) for m in messages})),
        max_scratch_chunks=max(scratch for _, _, scratch in table.sizes),
        instructions=tuple(sorted((op, many) for op, many in ops.items() if many)),
        dependences=0,
        thread_blocks=table.ranks,
        steps=steps.total(),
    )
