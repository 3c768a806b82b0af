"""What shows of an MSCCL++ plan without running it: ids, limits, channels, ranges, forms of operations.

In: a plan and where to report. Out: findings. After a plan passes, ``execution`` may follow every index in it.
The limits are those of the runtime's kernel, whose loader checks few of them: what it does not check overwrites
memory.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

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
    GpuPlan,
    LocalSlice,
    Plan,
    PlanBlock,
    PlanOperation,
    RemoteSlice,
    Slice,
)
from hetesynth.model.verdict import Violation
from hetesynth.verify.mscclpp.rules import PLAN_RULES

MAX_FINDINGS = 50

_PUTS = frozenset({"put", "pws", "pwsf"})
_NOTIFIES = frozenset({"signal", "wait", "rlxsignal", "rlxwait", "flush"})

_Shape = tuple[str, str]
"""The slices an operation takes on either side: L local, R remote, + any number more of the last kind."""
_SHAPES: dict[str, _Shape] = {
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


@dataclass(frozen=True, slots=True)
class PlanPlace:
    """Positions: the GPU, its thread block, that one's operation."""

    gpu: int
    block: int | None = None
    operation: int | None = None

    def __str__(self) -> str:
        text = f"gpu {self.gpu}"
        if self.block is not None:
            text += f" thread block {self.block}"
        return text if self.operation is None else f"{text} operation {self.operation}"


@dataclass(slots=True)
class PlanFindings:
    """Collects at most ``limit`` violations."""

    limit: int = MAX_FINDINGS
    found: list[Violation] = field(default_factory=list)

    @property
    def full(self) -> bool:
        """Whether further findings are dropped."""
        return len(self.found) >= self.limit

    def add(self, rule: str, message: str, place: PlanPlace | None = None) -> None:
        """Keeps the finding, unless there are enough already. ``rule``: a name in rules.PLAN_RULES."""
        if self.full:
            return
        checked = PLAN_RULES[rule]
        if place is None:
            self.found.append(Violation(checked.kind, message, rule=checked.id))
            return
        text, step, block = f"{place}: {message}", place.operation, place.block
        found = Violation(checked.kind, text, step=step, rank=place.gpu, thread_block=block, rule=checked.id)
        self.found.append(found)


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
        if findings.full:
            return
    _pairs(plan, findings)
    if links is not None:
        _links(plan, findings, frozenset(links))


def _gpu(plan: Plan, g: int, gpu: GpuPlan, findings: PlanFindings, servers: Sequence[str] | None) -> None:
    here = PlanPlace(g)
    if gpu.rank != g:
        text = f"its id is {gpu.rank}: the loader takes the {g}th entry as rank {g}"
        findings.add("plan-gpu-order", text, here)
    if gpu.input_chunks < 1 or gpu.output_chunks < 1:
        text = "input_chunks and output_chunks must be at least 1: the loader divides by them"
        findings.add("plan-no-chunks", text, here)
    if not gpu.blocks:
        findings.add("plan-no-block", "there is no thread block: the kernel cannot be started", here)
    for kind in CHANNEL_TYPES:
        for peer in sorted(set(gpu.peers(kind))):
            if peer == g or peer >= plan.ranks:
                what = "the GPU itself" if peer == g else f"GPU {peer}, which does not exist"
                findings.add("plan-peer", f"a {kind} channel leads to {what}", here)
            elif kind == "memory" and servers is not None and servers[peer] != servers[g]:
                text = f"a memory channel leads to GPU {peer} in another server"
                findings.add("plan-memory-across-servers", text, here)
    for i, buffer in enumerate(gpu.remote_buffers):
        if buffer.rank == g or buffer.rank >= plan.ranks:
            text = f"remote buffer {i} is of GPU {buffer.rank}: not another GPU"
            findings.add("plan-remote-buffer", text, here)
        elif buffer.buffer == "s" and not plan.gpus[buffer.rank].scratch_chunks:
            text = f"remote buffer {i} is scratch of GPU {buffer.rank}, which has none"
            findings.add("plan-no-scratch", text, here)
    for t, block in enumerate(gpu.blocks):
        _block(plan, PlanPlace(g, t), gpu, block, findings)
    _barriers(g, gpu, findings)


def _block(plan: Plan, here: PlanPlace, gpu: GpuPlan, block: PlanBlock, findings: PlanFindings) -> None:
    if block.id != here.block:
        text = f"its id is {block.id}: the loader takes thread blocks by position"
        findings.add("plan-block-order", text, here)
    if len(block.operations) > MAX_OPERATIONS:
        text = f"{len(block.operations)} operations, at most {MAX_OPERATIONS}"
        findings.add("plan-operation-limit", text, here)
    before = len(findings.found)
    for kind in CHANNEL_TYPES:
        channels, buffers = block.channels(kind), block.buffers(kind)
        if len(channels) > MAX_CHANNELS:
            text = f"{len(channels)} {kind} channels, at most {MAX_CHANNELS}"
            findings.add("plan-channel-limit", text, here)
        if len(buffers) > MAX_REMOTE_BUFFERS:
            text = f"{len(buffers)} remote buffers over {kind} channels, at most {MAX_REMOTE_BUFFERS}"
            findings.add("plan-remote-limit", text, here)
        for c in channels:
            if c >= len(gpu.peers(kind)):
                text = f"{kind} channel {c} does not exist: the GPU has {len(gpu.peers(kind))}"
                findings.add("plan-no-such-channel", text, here)
        for b in buffers:
            if b >= len(gpu.remote_buffers) or kind not in gpu.remote_buffers[b].access:
                text = f"there is no remote buffer {b} reached over a {kind} channel"
                findings.add("plan-no-such-remote", text, here)
    if len(findings.found) == before:
        for i, operation in enumerate(block.operations):
            for rule, message in _operation(plan, gpu, block, operation):
                findings.add(rule, message, PlanPlace(here.gpu, here.block, i))


_Defect = tuple[str, str]
"""(rule, message)."""


def _operation(plan: Plan, gpu: GpuPlan, block: PlanBlock, operation: PlanOperation) -> Iterator[_Defect]:
    op = operation.op
    if len(operation.src) > MAX_SLICES or len(operation.dst) > MAX_SLICES:
        yield "plan-slice-limit", f"more than {MAX_SLICES} slices on one side"
    if len(operation.channels) > MAX_CHANNELS_OF_OPERATION:
        text = f"{len(operation.channels)} channels, at most {MAX_CHANNELS_OF_OPERATION} an operation"
        yield "plan-operation-channels", text
    if op not in _SHAPES:
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
    if op in _SHAPES:
        yield from _slices(plan, gpu, block, operation)
    yield from _channels(block, operation)


def _local_synchronization(gpu: GpuPlan, operation: PlanOperation) -> Iterator[_Defect]:
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


def _channels(block: PlanBlock, operation: PlanOperation) -> Iterator[_Defect]:
    op, kind = operation.op, operation.channel_type
    if kind is None:
        return
    known = block.channels(kind)
    if any(c >= len(known) for c in operation.channels):
        text = f"channel {max(operation.channels)}: the thread block has {len(known)} {kind} channels"
        yield "plan-no-such-channel", text
    if op in _NOTIFIES:
        if not operation.channels:
            yield "plan-no-channel", f"`{op}` names no channel"
        ends = [known[c] for c in operation.channels if c < len(known)]
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


def _slices(plan: Plan, gpu: GpuPlan, block: PlanBlock, operation: PlanOperation) -> Iterator[_Defect]:
    op = operation.op
    shape = _SHAPES[op]
    for word, parts, wanted in zip(("src", "dst"), (operation.src, operation.dst), shape, strict=True):
        if not _has_shape(parts, wanted):
            text = f"`{op}` does not take these {word}_buff: {wanted} (L local, R remote) is what it takes"
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
        and len({_buffer_of(part) for part in operation.src}) > 1
    ):
        text = "`put` from different buffers: the runtime takes all from that of the first slice"
        yield "plan-put-one-buffer", text
    for part in (*operation.src, *operation.dst):
        yield from _range(plan, gpu, block, operation, part)


def _unmoved(block: PlanBlock, operation: PlanOperation) -> Iterator[_Defect]:
    """Slices of an operation that moves nothing: the loader looks their remote buffers up all the same."""
    kind = operation.channel_type
    known = () if kind is None else block.buffers(kind)
    for part in (*operation.src, *operation.dst):
        if isinstance(part, RemoteSlice) and part.buffer_id >= len(known):
            text = f"buffer_id {part.buffer_id}: the thread block has {len(known)} over {kind or 'no'} channels"
            yield "plan-buffer-id", f"{text}, and the loader looks it up though `{operation.op}` moves nothing"
            return


def _has_shape(parts: Sequence[Slice], wanted: str) -> bool:
    letters = "".join("L" if isinstance(part, LocalSlice) else "R" for part in parts)
    if not wanted.endswith("+"):
        return letters == wanted
    fixed = wanted[:-1]
    return letters.startswith(fixed) and letters[len(fixed) :] == fixed[-1] * (len(letters) - len(fixed))


def _buffer_of(part: Slice) -> str:
    return part.buffer if isinstance(part, LocalSlice) else ""


def _range(
    plan: Plan, gpu: GpuPlan, block: PlanBlock, operation: PlanOperation, part: Slice
) -> Iterator[_Defect]:  # fmt: skip
    if part.size < 1:
        yield "plan-empty-slice", "a slice of no chunks"
        return
    if isinstance(part, RemoteSlice):
        kind = operation.channel_type or "memory"
        known = block.buffers(kind)
        if part.buffer_id >= len(known):
            text = f"buffer_id {part.buffer_id}: the thread block has {len(known)} over {kind} channels"
            yield "plan-buffer-id", text
            return
        buffer = gpu.remote_buffers[known[part.buffer_id]]
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
    known = () if kind is None else block.channels(kind)
    if kind is None or channel >= len(known) or known[channel] >= len(gpu.peers(kind)):
        return -1
    return gpu.peers(kind)[known[channel]]


def _owner(gpu: GpuPlan, block: PlanBlock, kind: Literal["memory", "port"], part: Slice) -> int | None:
    """Whose memory a remote slice is; None for a local one and for one that is nowhere, as other checks tell."""
    known = block.buffers(kind)
    if not isinstance(part, RemoteSlice) or part.buffer_id >= len(known):
        return None
    number = known[part.buffer_id]
    return gpu.remote_buffers[number].rank if number < len(gpu.remote_buffers) else None


def _barriers(g: int, gpu: GpuPlan, findings: PlanFindings) -> None:
    """A barrier counts arrivals: it must have as many thread blocks as it says, each equally often."""
    users: dict[int, Counter[int]] = defaultdict(Counter)
    sizes: dict[int, set[int]] = defaultdict(set)
    for t, block in enumerate(gpu.blocks):
        for operation in block.operations:
            if operation.op == "barrier" and operation.barrier is not None and operation.blocks is not None:
                users[operation.barrier][t] += 1
                sizes[operation.barrier].add(operation.blocks)
    for barrier in sorted(users):
        said = sizes[barrier]
        if said != {len(users[barrier])}:
            text = f"barrier {barrier} is met by {len(users[barrier])} thread blocks but says {sorted(said)[:4]}"
            findings.add("plan-barrier-count", text, PlanPlace(g))
        elif len(set(users[barrier].values())) > 1:
            text = f"thread blocks meet barrier {barrier} unequally often"
            findings.add("plan-barrier-unequal", text, PlanPlace(g))


def _pairs(plan: Plan, findings: PlanFindings) -> None:
    for kind in CHANNEL_TYPES:
        counts: Counter[tuple[int, int]] = Counter()
        for g, gpu in enumerate(plan.gpus):
            counts.update((g, peer) for peer in gpu.peers(kind))
        for a, b in sorted(counts):
            if counts[a, b] > counts[b, a] and counts[b, a] == 0:
                text = f"gpu {a} has {kind} channels to gpu {b}, which has none back"
                findings.add("plan-unpaired-channels", text)


def _links(plan: Plan, findings: PlanFindings, links: frozenset[tuple[int, int]]) -> None:
    """Data may flow only where the topology has a link; signals may go either way."""
    for g, gpu in enumerate(plan.gpus):
        for t, block in enumerate(gpu.blocks):
            for i, operation in enumerate(block.operations):
                kind = operation.channel_type
                if kind is None:
                    continue
                for parts, outward in ((operation.src, False), (operation.dst, True)):
                    for part in parts:
                        peer = _owner(gpu, block, kind, part)
                        if peer is None:
                            continue
                        pair = (g, peer) if outward else (peer, g)
                        if pair not in links:
                            text = f"moves data from gpu {pair[0]} to gpu {pair[1]}: the topology has no such link"
                            findings.add("plan-no-such-link", text, PlanPlace(g, t, i))
