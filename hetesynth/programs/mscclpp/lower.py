"""Lowering for MSCCL++: a schedule becomes a ``Plan``, memory channels inside a server and port channels between.

MSCCL++ cannot do without a buffer: where NCCL has none (the output of a gather, the input of a scatter, away from
the root) the plan declares one block, which is never touched.
"""

from collections.abc import Sequence
from itertools import product

from hetesynth.errors import HetesynthError
from hetesynth.model.collective import CollectiveName
from hetesynth.model.plan import ALIGNMENT, MAX_BUFFER_BYTES, ChannelType, GpuPlan, Plan, RemoteBuffer
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import TARGETS
from hetesynth.model.topology import Rank
from hetesynth.programs.layout import FileOptions, Layout
from hetesynth.programs.mscclpp.blocks import thread_blocks
from hetesynth.programs.mscclpp.placement import PlanPlacement

RESIDENT_BLOCKS = TARGETS["mscclpp"].resident_thread_blocks
PEERS_PER_BLOCK = ((1, 8), (1, 16), (2, 16), (4, 16), (8, 16), (16, 16))
"""Memory peers and port peers of a thread block, tried in this order: the fewer, the more runs at once."""


def lower_plan(problem: Problem, schedule: Schedule, options: FileOptions, servers: Sequence[str]) -> Plan:
    """The plan that carries out ``schedule``; ``servers[r]`` names the server of rank r. Raises HetesynthError:
    HS505 the collective has no such form, HS507 the schedule sends what a rank does not hold, HS508 it does not
    fit the runtime's limits, HS509 buffers of the least size are too large for it."""
    options.check(problem.collective.name)
    layout = Layout(problem.collective, options.in_place)
    placement = PlanPlacement(problem, schedule, layout)
    gpus = [_gpu(layout, placement, rank, servers) for rank in range(problem.ranks)]
    return plan_of_gpus(options, problem.collective.name, gpus)


def plan_of_gpus(options: FileOptions, name: CollectiveName, gpus: Sequence[GpuPlan]) -> Plan:
    """The plan of collective ``name`` for the sizes of ``options``; HetesynthError HS509 as ``message_range``."""
    least, most = message_range(name, gpus, options.min_bytes, options.max_bytes)
    return Plan(options.name, name, "Simple", options.in_place, tuple(gpus), min_bytes=least, max_bytes=most)


def _gpu(layout: Layout, placement: PlanPlacement, rank: Rank, servers: Sequence[str]) -> GpuPlan:
    outgoing, incoming = placement.outgoing[rank], placement.incoming[rank]
    peers = sorted({m.dst for m in outgoing} | {m.src for m in incoming})
    near: dict[ChannelType, tuple[Rank, ...]] = {
        "memory": tuple(p for p in peers if servers[p] == servers[rank]),
        "port": tuple(p for p in peers if servers[p] != servers[rank]),
    }
    remote = tuple(sorted({(m.dst, to.buffer) for m in outgoing for _, to, _ in m.slices}))
    buffers = [RemoteBuffer(p, buffer, ("memory" if p in near["memory"] else "port",)) for p, buffer in remote]
    # as many thread blocks as may run together, with as few peers each as that allows
    for together, (memory, port) in product((False, True), PEERS_PER_BLOCK):
        most: dict[ChannelType, int] = {"memory": memory, "port": port}
        blocks = thread_blocks(placement, rank, near, remote, most, together=together)
        if blocks is not None and len(blocks) <= RESIDENT_BLOCKS:
            sizes, scratch = buffer_sizes(layout, rank), placement.scratch[rank]
            return GpuPlan(rank, *sizes, scratch, blocks, near["memory"], near["port"], tuple(buffers))
    raise HetesynthError(
        f"rank {rank} moves {len(outgoing) + len(incoming)} messages: they do not fit into "
        f"{RESIDENT_BLOCKS} thread blocks of 64 operations and 16 barriers, all that MSCCL++ holds",
        code="HS508",
        help="use fewer chunks per rank, or a schedule with fewer steps",
    )


def buffer_sizes(layout: Layout, rank: Rank) -> tuple[int, int]:
    """Chunks of the input and of the output of ``rank``: one block where NCCL has none."""
    inputs, outputs = (size or layout.collective.chunks_per_rank for size in layout.sizes(rank))
    return inputs, outputs


# -- for which sizes a plan can be: the largest call that keeps every buffer within the runtime's 32-bit offsets
#
# A *call* is what the user asks for, counted as NCCL does: one rank's block for a gather or scatter, else the
# whole buffer. A *message* is what the plan's range is compared with, on each rank by itself: the output of an
# allgather, else the input. They differ for a scatter, whose root has all blocks as input.


def largest_call(collective: str, gpus: Sequence[GpuPlan]) -> int:
    """The largest call, in bytes, of which input, output and scratch can be addressed on every GPU."""
    most = max(max(gpu.input_chunks, gpu.output_chunks, gpu.scratch_chunks) for gpu in gpus)
    return MAX_BUFFER_BYTES // (most * ALIGNMENT) * ALIGNMENT * min(_messages(collective, gpus))


def message_range(collective: str, gpus: Sequence[GpuPlan], low: int, high: int) -> tuple[int, int]:
    """(min_message_size, max_message_size) for calls of ``low`` to ``high`` bytes, 0 for as many as can be. Raises
    HetesynthError HS509 when ``low`` is past what can be."""
    largest = largest_call(collective, gpus)
    if low > largest:
        raise too_large(low, largest)
    messages = _messages(collective, gpus)
    return low, min(high or largest, largest) * max(messages) // min(messages)


def too_large(size: int, largest: int | None = None) -> HetesynthError:
    """The refusal of a call of ``size`` bytes where ``largest`` can be; None: no schedule can carry ``size``."""
    limit = "no schedule can keep to" if largest is None else f"here they do for up to {largest} bytes"
    less = "" if largest is None else ", or a schedule that needs less scratch"
    return HetesynthError(
        f"MSCCL++ cannot carry {size} bytes: it keeps offsets in 32 bits, so input, output and scratch must each "
        f"stay below 4 GiB, which {limit}",
        code="HS509",
        help=f"split the call{',' if less else ' or'} use another target{less}",
    )


def _messages(collective: str, gpus: Sequence[GpuPlan]) -> list[int]:
    """The chunks of each rank's message."""
    return [gpu.output_chunks if collective == "allgather" else gpu.input_chunks for gpu in gpus]
