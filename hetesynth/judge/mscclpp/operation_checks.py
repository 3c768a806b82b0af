"""What shows of one operation of a plan without running it: its slices, channels, ranges.

In: an operation and the thread block, the GPU and the plan it stands in. Out: (rule, message) of each defect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from hetesynth.model.plan import (
    MAX_BARRIERS,
    MAX_CHANNELS_OF_OPERATION,
    MAX_SEMAPHORES_OF_OPERATION,
    MAX_SLICES,
    GpuPlan,
    LocalSlice,
    Plan,
    PlanBlock,
    PlanOperation,
    RemoteSlice,
    Slice,
)

_PUTS = frozenset({"put", "pws", "pwsf"})
_NOTIFIES = frozenset({"signal", "wait", "rlxsignal", "rlxwait", "flush"})

_Shape = tuple[str, str]
"""The slices an operation takes on either side: L local, R remote, + any number more of the last kind."""
SHAPES: dict[str, _Shape] = {
    "copy": ("L", "L"),
    "re": ("LL+", "L"),
    "res": ("L+", "LR+"),
    "rre": ("LR+", "L"),
    "rres": ("LR+", "LR+"),
    "put": ("L+", "R+"),
    "pws": ("L+", "R+"),
    "pwsf": ("L+", "R+"),
    "get": ("R+", "L+"),
}


Defect = tuple[str, str]
"""(rule, message)."""


def operation_defects(plan: Plan, gpu: GpuPlan, block: PlanBlock, operation: PlanOperation) -> Iterator[Defect]:
    """What is wrong with ``operation`` of ``block``, a thread block whose own tables are in order."""
    op = operation.op
    if len(operation.src) > MAX_SLICES or len(operation.dst) > MAX_SLICES:
        yield "plan-slice-limit", f"more than {MAX_SLICES} slices on one side"
    if len(operation.channels) > MAX_CHANNELS_OF_OPERATION:
        text = f"{len(operation.channels)} channels, at most {MAX_CHANNELS_OF_OPERATION} an operation"
        yield "plan-operation-channels", text
    if op not in SHAPES:
        yield from _unmoved(block, operation)
    single = op in _NOTIFIES or (op in _PUTS and operation.channel_type == "port")
    entries = len(operation.channels) if single else len(operation.semaphores)
    if 1 <= plan.threads < entries:
        yield "plan-threads", f"`{op}` has {entries} entries, one for a thread each, and there are {plan.threads}"
    if op in ("barrier", "sem_acquire", "sem_release"):
        yield from _local_synchronization(gpu, operation)
        return
    remote = op in _PUTS or op in ("get", "res", "rre", "rres")
    if (remote or op in _NOTIFIES) and operation.channel_type is None:
        yield "plan-channel-type", f"`{op}` needs a channel_type"
        return
    if op in SHAPES:
        yield from _slices(plan, gpu, block, operation)
    yield from _channels(block, operation)


def _local_synchronization(gpu: GpuPlan, operation: PlanOperation) -> Iterator[Defect]:
    if operation.op == "barrier":
        if operation.barrier is None or operation.blocks is None:
            yield "plan-barrier-incomplete", "`barrier` needs barrier_id and num_threadblocks"
        elif operation.barrier >= MAX_BARRIERS:
            text = f"barrier_id {operation.barrier}: there are {MAX_BARRIERS} barriers, from 0"
            yield "plan-barrier-limit", text
    elif not operation.semaphores:
        yield "plan-no-semaphore", f"`{operation.op}` names no semaphore"
    elif len(operation.semaphores) > MAX_SEMAPHORES_OF_OPERATION:
        text = f"{len(operation.semaphores)} semaphores, at most {MAX_SEMAPHORES_OF_OPERATION} an operation"
        yield "plan-semaphore-limit", text
    elif max(operation.semaphores) >= len(gpu.semaphores):
        text = f"semaphore {max(operation.semaphores)}: the GPU has {len(gpu.semaphores)}"
        yield "plan-semaphore-range", text
    elif len(set(operation.semaphores)) < len(operation.semaphores):
        yield "plan-semaphore-twice", f"`{operation.op}` names a semaphore twice"


def _channels(block: PlanBlock, operation: PlanOperation) -> Iterator[Defect]:
    op, kind = operation.op, operation.channel_type
    if kind is None:
        return
    block_channels = block.channels(kind)
    if any(c >= len(block_channels) for c in operation.channels):
        text = f"channel {max(operation.channels)}: the thread block has {len(block_channels)} {kind} channels"
        yield "plan-no-such-channel", text
    if op in _NOTIFIES:
        if not operation.channels:
            yield "plan-no-channel", f"`{op}` names no channel"
        ends = [block_channels[c] for c in operation.channels if c < len(block_channels)]
        if len(set(ends)) < len(ends):
            yield "plan-channel-twice", f"`{op}` names a channel twice: two threads would use it at once"
    if op == "flush" and not len(operation.channels) <= len(operation.dst) <= MAX_CHANNELS_OF_OPERATION:
        text = (
            f"`flush` of {len(operation.channels)} channels has {len(operation.dst)} dst_buff: the runtime counts"
        )
        yield "plan-flush-count", f"{text} these, thread i flushes channel_ids[i] if there is a dst_buff[i]"
    if op in ("flush", "pws", "pwsf") and kind == "memory":
        yield "plan-port-only", f"`{op}` is for port channels"
    if op in ("get", "res", "rre", "rres") and kind == "port":
        yield "plan-memory-only", f"`{op}` reads or writes peers directly: a port channel cannot"
    if op in _PUTS and kind == "port" and len(operation.channels) != len(operation.dst):
        text = f"{len(operation.channels)} channels for {len(operation.dst)} slices: one carries each"
        yield "plan-channel-each", text


def _slices(plan: Plan, gpu: GpuPlan, block: PlanBlock, operation: PlanOperation) -> Iterator[Defect]:
    op = operation.op
    shape = SHAPES[op]
    for word, parts, letters in zip(("src", "dst"), (operation.src, operation.dst), shape, strict=True):
        if not _has_shape(parts, letters):
            text = f"`{op}` does not take these {word}_buff: {letters} (L local, R remote) is what it takes"
            yield "plan-slice-form", text
            return
    if op in _PUTS or op == "get":
        if len(operation.src) != len(operation.dst):
            text = f"`{op}` has {len(operation.src)} sources and {len(operation.dst)} targets"
            yield "plan-slice-count", text
            return
        unequal = any(a.size != b.size for a, b in zip(operation.src, operation.dst, strict=True))
    else:
        unequal = len({part.size for part in (*operation.src, *operation.dst)}) > 1
    if unequal:
        yield "plan-slice-size", f"`{op}` moves between slices of different sizes"
    if op == "get" and any(a.index != b.index for a, b in zip(operation.src, operation.dst, strict=True)):
        yield "plan-get-exchanged", "`get` between different indices: the runtime exchanges the two offsets"
    if (
        op == "put"
        and operation.channel_type == "memory"
        and len({part.buffer for part in operation.src if isinstance(part, LocalSlice)}) > 1
    ):
        text = "`put` from different buffers: the runtime takes all from that of the first slice"
        yield "plan-put-one-buffer", text
    for part in (*operation.src, *operation.dst):
        yield from _range(plan, gpu, block, operation, part)


def _unmoved(block: PlanBlock, operation: PlanOperation) -> Iterator[Defect]:
    """Slices of an operation that moves nothing: the loader looks their remote buffers up all the same."""
    kind = operation.channel_type
    buffers = () if kind is None else block.buffers(kind)
    for part in (*operation.src, *operation.dst):
        if isinstance(part, RemoteSlice) and part.buffer_id >= len(buffers):
            text = f"buffer_id {part.buffer_id}: the thread block has {len(buffers)} over {kind or 'no'} channels"
            yield "plan-buffer-id", f"{text}, and the loader looks it up though `{operation.op}` moves nothing"
            return


def _has_shape(parts: Sequence[Slice], shape: str) -> bool:
    letters = "".join("L" if isinstance(part, LocalSlice) else "R" for part in parts)
    if not shape.endswith("+"):
        return letters == shape
    fixed = shape[:-1]
    return letters.startswith(fixed) and letters[len(fixed) :] == fixed[-1] * (len(letters) - len(fixed))


def _range(
    plan: Plan, gpu: GpuPlan, block: PlanBlock, operation: PlanOperation, part: Slice
) -> Iterator[Defect]:  # fmt: skip
    if part.size < 1:
        yield "plan-empty-slice", "a slice of no chunks"
        return
    if isinstance(part, RemoteSlice):
        kind = operation.channel_type or "memory"
        buffers = block.buffers(kind)
        if part.buffer_id >= len(buffers):
            text = f"buffer_id {part.buffer_id}: the thread block has {len(buffers)} over {kind} channels"
            yield "plan-buffer-id", text
            return
        buffer = gpu.remote_buffers[buffers[part.buffer_id]]
        if buffer.rank >= plan.ranks:
            return
        owner, name, what = plan.gpus[buffer.rank], buffer.buffer, f"GPU {buffer.rank}'s {buffer.buffer}"
        near = {block_peer(gpu, block, operation.channel_type, c) for c in operation.channels}
        if near and operation.channel_type == "port" and buffer.rank not in near:
            text = f"`{operation.op}` into GPU {buffer.rank}: none of its channels leads there"
            yield "plan-other-peer", text
    else:
        owner, name, what = gpu, part.buffer, part.buffer
    room = {"i": owner.input_chunks, "o": owner.output_chunks, "s": owner.scratch_chunks}[name]
    if part.index + part.size > room:
        text = f"touches {what}[{part.index}..{part.index + part.size - 1}], which has {room} chunks"
        yield "plan-range", text


def block_peer(gpu: GpuPlan, block: PlanBlock, kind: Literal["memory", "port"] | None, channel: int) -> int:
    """The far end of a channel as an operation names it; -1 when there is none."""
    if kind is None:
        return -1
    channels = block.channels(kind)
    if channel >= len(channels) or channels[channel] >= len(gpu.peers(kind)):
        return -1
    return gpu.peers(kind)[channels[channel]]


def slice_owner(gpu: GpuPlan, block: PlanBlock, kind: Literal["memory", "port"], part: Slice) -> int | None:
    """Whose memory a remote slice is; None for a local one and for one that is nowhere, as other checks tell."""
    buffers = block.buffers(kind)
    if not isinstance(part, RemoteSlice) or part.buffer_id >= len(buffers):
        return None
    number = buffers[part.buffer_id]
    return gpu.remote_buffers[number].rank if number < len(gpu.remote_buffers) else None
