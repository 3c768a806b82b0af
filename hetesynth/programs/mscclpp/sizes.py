"""For which sizes a plan can be: the largest call that keeps every buffer within the runtime's 32-bit offsets.

In: the GPUs of a plan. Out: bytes. A *call* is what the user asks for, counted as NCCL does: one rank's block for
a gather or scatter, else the whole buffer. A *message* is what the plan's range is compared with, on each rank by
itself: the output of an allgather, else the input. They differ for a scatter, whose root has all blocks as input.
"""

from __future__ import annotations

from collections.abc import Sequence

from hetesynth.errors import HetesynthError
from hetesynth.model.plan import ALIGNMENT, MAX_BUFFER_BYTES, GpuPlan


def largest_call(collective: str, gpus: Sequence[GpuPlan]) -> int:
    """The largest call, in bytes, of which input, output and scratch can be addressed on every GPU."""
    most = max(max(gpu.input_chunks, gpu.output_chunks, gpu.scratch_chunks) for gpu in gpus)
    return MAX_BUFFER_BYTES // (most * ALIGNMENT) * ALIGNMENT * min(_messages(collective, gpus))


def message_range(collective: str, gpus: Sequence[GpuPlan], low: int, high: int) -> tuple[int, int]:
    """(min_message_size, max_message_size) for calls of ``low`` to ``high`` bytes, 0 for as many as can be.

    Raises HetesynthError HS509 when ``low`` is past what can be.
    """
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
