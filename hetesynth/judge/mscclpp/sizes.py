"""Which sizes an MSCCL++ plan lets in, and whether its buffers stay within what the runtime can address.

In: a plan. Out: a violation or none. Knows nothing of operations.

The runtime lets a call in when its message is within ``min_message_size`` and ``max_message_size``. The message
is the output of an allgather, else the input, on each rank by itself. Sizes are multiples of the chunks and the
alignment; scratch is as many chunks of that size as the plan says, twice as many with packets (LL), again twice
with a double buffer, and of a fixed 64 MiB when resources are reused. The kernel keeps offsets and sizes in 32
bits.
"""

from __future__ import annotations

from collections.abc import Iterator

from hetesynth.judge.mscclpp.findings import PlanFindings, PlanPlace
from hetesynth.model.plan import MAX_BUFFER_BYTES, OPEN_MAX_BYTES, GpuPlan, Plan


def states_sizes(plan: Plan) -> bool:
    """Whether the plan itself says for which sizes it is; otherwise any may come."""
    return plan.max_bytes < OPEN_MAX_BYTES or plan.min_bytes > largest_message(plan)


def largest_message(plan: Plan) -> int:
    """The largest message, in bytes, with which all buffers of all GPUs can be addressed."""
    most = max(chunks for gpu in plan.gpus for _, chunks in _buffers(plan, gpu))
    unit = max(1, plan.alignment)
    chunk = MAX_BUFFER_BYTES // (max(1, most) * unit) * unit
    return chunk * max(_message(plan, gpu) for gpu in plan.gpus)


def size_violations(plan: Plan, findings: PlanFindings) -> None:
    """At most one finding: the largest buffer that the sizes let in, when it cannot be addressed."""
    unit = max(1, plan.alignment)
    chunk = min(plan.max_bytes // (_message(plan, gpu) * unit) * unit for gpu in plan.gpus)
    size, g, name = max(
        (chunks * chunk, -g, name) for g, gpu in enumerate(plan.gpus) for name, chunks in _buffers(plan, gpu)
    )
    if size <= MAX_BUFFER_BYTES:
        return
    said = "an open max_message_size" if plan.max_bytes == OPEN_MAX_BYTES else f"max_message_size {plan.max_bytes}"
    text = (
        f"{said} lets its {name} buffer grow to 4 GiB and more, past offsets of 32 bits, where chunks overwrite "
        f"each other; messages of up to {largest_message(plan)} bytes are safe"
    )
    findings.add("plan-size-range", text, PlanPlace(-g))


def _message(plan: Plan, gpu: GpuPlan) -> int:
    """The chunks of the message of one rank, as the loader compares it with the range."""
    return max(1, gpu.output_chunks if plan.collective == "allgather" else gpu.input_chunks)


def _buffers(plan: Plan, gpu: GpuPlan) -> Iterator[tuple[str, int]]:
    """(name, chunks of memory) of each buffer that grows with the message."""
    yield "input", gpu.input_chunks
    yield "output", gpu.output_chunks
    if not plan.reuse_resources:
        copies = (2 if plan.protocol == "LL" else 1) * (2 if plan.double_scratch else 1)
        yield "scratch", gpu.scratch_chunks * copies
