"""What shows of an MSCCL++ plan without running it: ids, limits, channels, ranges, forms of operations.

In: a plan and where to report. Out: findings. After a plan passes, ``execution`` may follow every index in it.
The limits are those of the runtime's kernel, whose loader checks few of them: what it does not check overwrites
memory.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence

from hetesynth.judge.mscclpp.findings import PlanFindings, PlanPlace
from hetesynth.judge.mscclpp.operation_checks import operation_defects, slice_owner
from hetesynth.model.plan import (
    ALIGNMENT,
    CHANNEL_TYPES,
    MAX_CHANNELS,
    MAX_OPERATIONS,
    MAX_REMOTE_BUFFERS,
    MAX_THREADS,
    GpuPlan,
    Plan,
    PlanBlock,
)


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
    _pairs(plan, findings)
    if links is not None:
        _links(plan, findings, frozenset(links))


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
    if block.id != place.block:
        text = f"its id is {block.id}: the loader takes thread blocks by position"
        findings.add("plan-block-order", text, place)
    if len(block.operations) > MAX_OPERATIONS:
        text = f"{len(block.operations)} operations, at most {MAX_OPERATIONS}"
        findings.add("plan-operation-limit", text, place)
    before = len(findings.violations)
    _tables(place, gpu, block, findings)
    if len(findings.violations) == before:
        for i, operation in enumerate(block.operations):
            for rule, message in operation_defects(plan, gpu, block, operation):
                findings.add(rule, message, PlanPlace(place.gpu, place.block, i))


def _tables(place: PlanPlace, gpu: GpuPlan, block: PlanBlock, findings: PlanFindings) -> None:
    """The channels and remote buffers that the thread block names, by type of channel."""
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


def _pairs(plan: Plan, findings: PlanFindings) -> None:
    for kind in CHANNEL_TYPES:
        counts: Counter[tuple[int, int]] = Counter()
        for g, gpu in enumerate(plan.gpus):
            counts.update((g, peer) for peer in gpu.peers(kind))
        for a, b in sorted(counts):
            if counts[b, a] == 0:
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
                        peer = slice_owner(gpu, block, kind, part)
                        if peer is None:
                            continue
                        pair = (g, peer) if outward else (peer, g)
                        if pair not in links:
                            text = f"moves data from gpu {pair[0]} to gpu {pair[1]}: the topology has no such link"
                            findings.add("plan-no-such-link", text, PlanPlace(g, t, i))
