"""What shows of an MSCCL++ plan without running it: ids, limits, channels, ranges, forms of operations.

After a plan passes, ``execution`` may follow every index in it. The limits are those of the runtime's kernel,
whose loader checks few of them: what it does not check overwrites memory.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence

from hetesynth.judge.mscclpp.rules import PlanFindings, PlanPlace
from hetesynth.model.plan import (
    ALIGNMENT,
    CHANNEL_TYPES,
    MAX_BARRIERS,
    MAX_CHANNELS,
    MAX_CHANNELS_OF_OPERATION,
    MAX_OPERATIONS,
    MAX_REMOTE_BUFFERS,
    MAX_SEMAPHORES_OF_OPERATION,
    MAX_SLICES,
    MAX_THREADS,
    ChannelType,
    GpuPlan,
    LocalSlice,
    Plan,
    PlanBlock,
    PlanOperation,
    RemoteSlice,
    Slice,
)

PUTS = frozenset({"put", "pws", "pwsf"})
_NOTIFIES = frozenset({"signal", "wait", "rlxsignal", "rlxwait", "flush"})
SHAPES = {
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
"""The slices that an operation takes on either side, L local, R remote, as regular expressions."""
Defect = tuple[str, str]
"""(rule, message)."""


def plan_structure(
    plan: Plan,
    findings: PlanFindings,
    links: Collection[tuple[int, int]] | None,
    servers: Sequence[str] | None,
    sms: int | None = None,
) -> None:
    """All static checks. ``links``: pairs of ranks that exist; ``servers``: of each rank; ``sms``: multiprocessors
    of a GPU, None: not known."""
    if plan.alignment < ALIGNMENT or plan.alignment % ALIGNMENT:
        findings.add("plan-alignment", f"buffer_alignment {plan.alignment} is no multiple of {ALIGNMENT}")
    if not 1 <= plan.threads <= MAX_THREADS:
        findings.add("plan-threads", f"{plan.threads} threads per block, not 1 to {MAX_THREADS}")
    if plan.min_bytes > plan.max_bytes:
        text = f"min_message_size {plan.min_bytes} is above max_message_size {plan.max_bytes}"
        findings.add("plan-min-above-max", text)
    for g, gpu in enumerate(plan.gpus):
        _gpu(plan, g, gpu, findings, servers)
        if sms is not None and len(gpu.blocks) > sms:
            text = f"{len(gpu.blocks)} thread blocks wait for each other on {sms} multiprocessors"
            findings.add("plan-co-residency", f"{text}: all must be there at once", PlanPlace(g))
    for kind in CHANNEL_TYPES:
        pairs = {(g, peer) for g, gpu in enumerate(plan.gpus) for peer in gpu.peers(kind)}
        for a, b in sorted(pairs):
            if (b, a) not in pairs:
                text = f"gpu {a} has {kind} channels to gpu {b}, which has none back"
                findings.add("plan-unpaired-channels", text)
    if links is not None:
        _links(plan, findings, links)


def _gpu(plan: Plan, g: int, gpu: GpuPlan, findings: PlanFindings, servers: Sequence[str] | None) -> None:
    place = PlanPlace(g)
    if gpu.rank != g:
        text = f"its id is {gpu.rank}: the loader takes the {g}th entry as rank {g}"
        findings.add("plan-gpu-order", text, place)
    if gpu.input_chunks < 1 or gpu.output_chunks < 1:
        text = "input_chunks and output_chunks must be at least 1: the loader divides by them"
        findings.add("plan-no-chunks", text, place)
    if not gpu.blocks:
        findings.add("plan-no-block", "there is no thread block: the kernel cannot be started", place)
    for kind in CHANNEL_TYPES:
        for peer in sorted(set(gpu.peers(kind))):
            if peer == g or peer >= plan.ranks:
                what = "the GPU itself" if peer == g else f"GPU {peer}, which does not exist"
                findings.add("plan-peer", f"a {kind} channel leads to {what}", place)
            elif kind == "memory" and servers is not None and servers[peer] != servers[g]:
                text = f"a memory channel leads to GPU {peer} in another server"
                findings.add("plan-memory-across-servers", text, place)
    for i, buffer in enumerate(gpu.remote_buffers):
        if buffer.rank == g or buffer.rank >= plan.ranks:
            text = f"remote buffer {i} is of GPU {buffer.rank}: not another GPU"
            findings.add("plan-remote-buffer", text, place)
        elif buffer.buffer == "s" and not plan.gpus[buffer.rank].scratch_chunks:
            text = f"remote buffer {i} is scratch of GPU {buffer.rank}, which has none"
            findings.add("plan-no-scratch", text, place)
    for t, block in enumerate(gpu.blocks):
        _block(plan, PlanPlace(g, t), gpu, block, findings)
    _barriers(g, gpu, findings)


def _block(plan: Plan, place: PlanPlace, gpu: GpuPlan, block: PlanBlock, findings: PlanFindings) -> None:
    """A thread block: its number, the channels and remote buffers that it names, then its operations."""
    if block.id != place.block:
        text = f"its id is {block.id}: the loader takes thread blocks by position"
        findings.add("plan-block-order", text, place)
    if len(block.operations) > MAX_OPERATIONS:
        text = f"{len(block.operations)} operations, at most {MAX_OPERATIONS}"
        findings.add("plan-operation-limit", text, place)
    before = len(findings.violations)
    for kind in CHANNEL_TYPES:
        channels, buffers = block.channels(kind), block.buffers(kind)
        if len(channels) > MAX_CHANNELS:
            text = f"{len(channels)} {kind} channels, at most {MAX_CHANNELS}"
            findings.add("plan-channel-limit", text, place)
        if len(buffers) > MAX_REMOTE_BUFFERS:
            text = f"{len(buffers)} remote buffers over {kind} channels, at most {MAX_REMOTE_BUFFERS}"
            findings.add("plan-remote-limit", text, place)
        for c in channels:
            if c >= len(gpu.peers(kind)):
                text = f"{kind} channel {c} does not exist: the GPU has {len(gpu.peers(kind))}"
                findings.add("plan-no-such-channel", text, place)
        for b in buffers:
            if b >= len(gpu.remote_buffers) or kind not in gpu.remote_buffers[b].access:
                text = f"there is no remote buffer {b} reached over a {kind} channel"
                findings.add("plan-no-such-remote", text, place)
    if len(findings.violations) == before:
        for i, operation in enumerate(block.operations):
            for rule, message in operation_defects(plan, gpu, block, operation):
                findings.add(rule, message, PlanPlace(place.gpu, place.block, i))


def _barriers(g: int, gpu: GpuPlan, findings: PlanFindings) -> None:
    """A barrier counts arrivals: it must have as many thread blocks as it says, each equally often."""
    users: dict[int, Counter[int]] = defaultdict(Counter)
    sizes: dict[int, set[int]] = defaultdict(set)
    for t, block in enumerate(gpu.blocks):
        for operation in block.operations:
            if operation.op == "barrier" and operation.barrier is not None and operation.blocks is not None:
                users[operation.barrier].update((t,))
                sizes[operation.barrier].add(operation.blocks)
    for barrier in sorted(users):
        said = sizes[barrier]
        if said != {len(users[barrier])}:
            text = f"barrier {barrier} is met by {len(users[barrier])} thread blocks but says {sorted(said)[:4]}"
            findings.add("plan-barrier-count", text, PlanPlace(g))
        elif len(set(users[barrier].values())) > 1:
            text = f"thread blocks meet barrier {barrier} unequally often"
            findings.add("plan-barrier-unequal", text, PlanPlace(g))


def _links(plan: Plan, findings: PlanFindings, links: Collection[tuple[int, int]]) -> None:
    """Data may flow only where the topology has a link; signals may go either way."""
    for g, gpu in enumerate(plan.gpus):
        for t, block in enumerate(gpu.blocks):
            for i, operation in enumerate(block.operations):
                kind = operation.channel_type
                if kind is None:
                    continue
                pairs: list[tuple[int | None, int | None]]
                pairs = [(slice_owner(gpu, block, kind, part), g) for part in operation.src]
                pairs += [(g, slice_owner(gpu, block, kind, part)) for part in operation.dst]
                for pair in pairs:
                    if None not in pair and pair not in links:
                        text = f"moves data from gpu {pair[0]} to gpu {pair[1]}: the topology has no such link"
                        findings.add("plan-no-such-link", text, PlanPlace(g, t, i))


def operation_defects(plan: Plan, gpu: GpuPlan, block: PlanBlock, operation: PlanOperation) -> Iterator[Defect]:
    """What is wrong with ``operation`` of ``block``, a thread block whose own tables are in order."""
    op = operation.op
    if len(operation.src) > MAX_SLICES or len(operation.dst) > MAX_SLICES:
        yield "plan-slice-limit", f"more than {MAX_SLICES} slices on one side"
    if len(operation.channels) > MAX_CHANNELS_OF_OPERATION:
        text = f"{len(operation.channels)} channels, at most {MAX_CHANNELS_OF_OPERATION} an operation"
        yield "plan-operation-channels", text
    kind = operation.channel_type
    reachable = 0 if kind is None else len(block.buffers(kind))
    for part in (*operation.src, *operation.dst) if op not in SHAPES else ():
        if isinstance(part, RemoteSlice) and part.buffer_id >= reachable:
            text = f"buffer_id {part.buffer_id}: the thread block has {reachable} over {kind or 'no'} channels"
            yield "plan-buffer-id", f"{text}, and the loader looks it up though `{op}` moves nothing"
            break
    single = op in _NOTIFIES or (op in PUTS and operation.channel_type == "port")
    entries = len(operation.channels) if single else len(operation.semaphores)
    if 1 <= plan.threads < entries:
        yield "plan-threads", f"`{op}` has {entries} entries, one for a thread each, and there are {plan.threads}"
    if op in ("barrier", "sem_acquire", "sem_release"):
        yield from _local_synchronization(gpu, operation)
        return
    remote = op in PUTS or op in ("get", "res", "rre", "rres")
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
    if op in PUTS and kind == "port" and len(operation.channels) != len(operation.dst):
        text = f"{len(operation.channels)} channels for {len(operation.dst)} slices: one carries each"
        yield "plan-channel-each", text


def _slices(plan: Plan, gpu: GpuPlan, block: PlanBlock, operation: PlanOperation) -> Iterator[Defect]:
    op, src, dst = operation.op, operation.src, operation.dst
    for word, parts, letters in zip(("src", "dst"), (src, dst), SHAPES[op], strict=True):
        if not re.fullmatch(letters, "".join("L" if isinstance(part, LocalSlice) else "R" for part in parts)):
            text = f"`{op}` does not take these {word}_buff: {letters} (L local, R remote) is what it takes"
            yield "plan-slice-form", text
            return
    paired = op in PUTS or op == "get"
    if paired and len(src) != len(dst):
        yield "plan-slice-count", f"`{op}` has {len(src)} sources and {len(dst)} targets"
        return
    sizes = (
        [{a.size, b.size} for a, b in zip(src, dst, strict=True)] if paired else [{p.size for p in (*src, *dst)}]
    )
    if any(len(size) > 1 for size in sizes):
        yield "plan-slice-size", f"`{op}` moves between slices of different sizes"
    if op == "get" and any(a.index != b.index for a, b in zip(src, dst, strict=True)):
        yield "plan-get-exchanged", "`get` between different indices: the runtime exchanges the two offsets"
    buffers = {part.buffer for part in src if isinstance(part, LocalSlice)}
    if op == "put" and operation.channel_type == "memory" and len(buffers) > 1:
        text = "`put` from different buffers: the runtime takes all from that of the first slice"
        yield "plan-put-one-buffer", text
    for part in (*src, *dst):
        yield from _range(plan, gpu, block, operation, part)


def _range(plan: Plan, gpu: GpuPlan, block: PlanBlock, operation: PlanOperation, part: Slice) -> Iterator[Defect]:
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


def block_peer(gpu: GpuPlan, block: PlanBlock, kind: ChannelType | None, channel: int) -> int:
    """The far end of a channel as an operation names it; -1 when there is none."""
    if kind is None:
        return -1
    channels = block.channels(kind)
    if channel >= len(channels) or channels[channel] >= len(gpu.peers(kind)):
        return -1
    return gpu.peers(kind)[channels[channel]]


def slice_owner(gpu: GpuPlan, block: PlanBlock, kind: ChannelType, part: Slice) -> int | None:
    """Whose memory a remote slice is; None for a local one and for one that is nowhere, as other checks tell."""
    buffers = block.buffers(kind)
    if not isinstance(part, RemoteSlice) or part.buffer_id >= len(buffers):
        return None
    number = buffers[part.buffer_id]
    return gpu.remote_buffers[number].rank if number < len(gpu.remote_buffers) else None
