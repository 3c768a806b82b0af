"""What shows of an MSCCL++ plan without running it: ids, limits, channels, ranges, forms of operations.

After a plan passes, ``execution`` may follow every index in it. The limits are those of the runtime's kernel,
whose loader checks few of them: what it does not check overwrites memory.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import Literal

from hetesynth.judge.rules import Findings, Place, shown
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
    PACKET_OPS,
    ChannelType,
    GpuPlan,
    LocalSlice,
    Plan,
    PlanBlock,
    PlanOperation,
    RemoteSlice,
    Slice,
)
from hetesynth.model.program import Buffer, BufferSlice
from hetesynth.model.topology import Rank

PUTS = frozenset({"put", "pws", "pwsf"})
_ON_PORTS = PUTS | {"rppkt"}
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
    "ppkt": ("L+", "R+"),
    "rppkt": ("L", "R+"),
    "cpkt": ("L", "L"),
    "upkt": ("L", "L"),
    "repkt": ("LL+", "L"),
    "respkt": ("LL+", "LR+"),
    "recpkt": ("LL+", "LL"),
    "recspkt": ("LL+", "LLR+"),
}
"""The slices that an operation takes on either side, L local, R remote, as regular expressions."""
_LOCAL = frozenset({"copy", "re", "cpkt", "upkt", "repkt", "recpkt"})
ScratchUse = Literal["packets", "data", "data from afar"]
Defect = tuple[str, str]
"""(rule, message)."""


def plan_structure(
    plan: Plan,
    findings: Findings,
    links: Collection[tuple[int, int]] | None,
    servers: Sequence[str] | None,
    sms: int | None = None,
) -> None:
    """Run all static checks. ``links``: pairs of ranks that exist; ``servers``: that of each rank; ``sms``:
    multiprocessors of a GPU, None: not known."""
    if plan.alignment < ALIGNMENT or plan.alignment % ALIGNMENT:
        findings.add("plan-alignment", f"buffer_alignment {plan.alignment} is no multiple of {ALIGNMENT}")
    if not 1 <= plan.threads <= MAX_THREADS:
        findings.add("plan-threads", f"{plan.threads} threads per block, not 1 to {MAX_THREADS}")
    if plan.min_bytes > plan.max_bytes:
        text = f"min_message_size {plan.min_bytes} is above max_message_size {plan.max_bytes}"
        findings.add("plan-min-above-max", text)
    unlinked: list[tuple[str, Place]] = []
    in_scratch: list[tuple[Rank, ScratchUse]] = []
    for g, gpu in enumerate(plan.gpus):
        for rule, message in _gpu_defects(plan, g, gpu, servers, sms):
            findings.add(rule, message, Place(g))
        for t, block in enumerate(gpu.blocks):
            defects = list(_block_defects(gpu, t, block))
            for rule, message in defects:
                findings.add(rule, message, Place(g, t))
            for i, operation in enumerate(() if defects else block.operations):
                wrong = list(operation_defects(plan, gpu, block, operation))
                in_scratch += () if wrong else _scratch_uses(gpu, block, operation)
                if links is not None and not wrong:  # data may flow only along links; signals may go either way
                    pairs = [(home(gpu, block, operation, part)[0], g) for part in operation.src]
                    pairs += [(g, home(gpu, block, operation, part)[0]) for part in operation.dst]
                    for a, b in pairs:
                        if a != b and (a, b) not in links:
                            text = f"moves data from gpu {a} to gpu {b}: the topology has no such link"
                            unlinked.append((text, Place(g, t, i)))
                for rule, message in wrong:
                    findings.add(rule, message, Place(g, t, i))
        for rule, message in _barrier_defects(gpu):
            findings.add(rule, message, Place(g))
    for text in _unpaired(plan):
        findings.add("plan-unpaired-channels", text)
    packets = {owner for owner, use in in_scratch if use == "packets"}
    for owner in sorted(packets & {owner for owner, use in in_scratch if use != "packets"}):
        text = "its scratch holds both packets and data: they are laid out differently"
        findings.add("plan-packets", text, Place(owner))
    if plan.double_scratch and "data from afar" in {use for _, use in in_scratch}:
        text = "peers or NICs touch data in scratch, which has two halves: they always use the first"
        findings.add("plan-double-scratch", text)
    for text, place in unlinked:
        findings.add("plan-no-such-link", text, place)


def _unpaired(plan: Plan) -> Iterator[str]:
    """Yield what is said of pairs of GPUs with channels one way only."""
    for kind in CHANNEL_TYPES:
        joined = {(g, peer) for g, gpu in enumerate(plan.gpus) for peer in gpu.peers(kind)}
        for a, b in sorted(joined - {(b, a) for a, b in joined}):
            yield f"gpu {a} has {kind} channels to gpu {b}, which has none back"


def _gpu_defects(
    plan: Plan, g: int, gpu: GpuPlan, servers: Sequence[str] | None, sms: int | None
) -> Iterator[Defect]:
    if gpu.rank != g:
        yield "plan-gpu-order", f"its id is {gpu.rank}: the loader takes the {g}th entry as rank {g}"
    if gpu.input_chunks < 1 or gpu.output_chunks < 1:
        yield "plan-no-chunks", "input_chunks and output_chunks must be at least 1: the loader divides by them"
    if not gpu.blocks:
        yield "plan-no-block", "there is no thread block: the kernel cannot be started"
    for kind in CHANNEL_TYPES:
        for peer in sorted(set(gpu.peers(kind))):
            if peer == g or peer >= plan.ranks:
                yield "plan-peer", f"a {kind} channel leads to gpu {peer}: not another GPU"
            elif kind == "memory" and servers is not None and servers[peer] != servers[g]:
                yield "plan-memory-across-servers", f"a memory channel leads to gpu {peer} in another server"
    for i, buffer in enumerate(gpu.remote_buffers):
        if buffer.rank == g or buffer.rank >= plan.ranks:
            yield "plan-remote-buffer", f"remote buffer {i} is of gpu {buffer.rank}: not another GPU"
        elif buffer.buffer == "s" and not plan.gpus[buffer.rank].scratch_chunks:
            yield "plan-no-scratch", f"remote buffer {i} is scratch of gpu {buffer.rank}, which has none"
    if sms is not None and len(gpu.blocks) > sms:
        text = f"{len(gpu.blocks)} thread blocks wait for each other on {sms} multiprocessors"
        yield "plan-co-residency", f"{text}: all must be there at once"


def _block_defects(gpu: GpuPlan, t: int, block: PlanBlock) -> Iterator[Defect]:
    """Yield what is wrong with a block's number, and with the channels and remote buffers that it names."""
    if block.id != t:
        yield "plan-block-order", f"its id is {block.id}: the loader takes thread blocks by position"
    stored = block.stored or len(block.operations)
    if stored > MAX_OPERATIONS:
        yield "plan-operation-limit", f"{stored} operations, at most {MAX_OPERATIONS}"
    for kind in CHANNEL_TYPES:
        channels, buffers, there = block.channels(kind), block.buffers(kind), len(gpu.peers(kind))
        if len(channels) > MAX_CHANNELS:
            yield "plan-channel-limit", f"{len(channels)} {kind} channels, at most {MAX_CHANNELS}"
        if len(buffers) > MAX_REMOTE_BUFFERS:
            text = f"{len(buffers)} remote buffers over {kind} channels, at most {MAX_REMOTE_BUFFERS}"
            yield "plan-remote-limit", text
        for c in channels:
            if c >= there:
                yield "plan-no-such-channel", f"{kind} channel {c} does not exist: the GPU has {there}"
        for b in buffers:
            if b >= len(gpu.remote_buffers) or kind not in gpu.remote_buffers[b].access:
                yield "plan-no-such-remote", f"there is no remote buffer {b} reached over a {kind} channel"


def _barrier_defects(gpu: GpuPlan) -> Iterator[Defect]:
    """Yield wrong barriers: each counts arrivals, and needs the thread blocks that it says, each equally often."""
    users: dict[int, Counter[int]] = defaultdict(Counter)
    sizes: dict[int, set[int]] = defaultdict(set)
    for t, block in enumerate(gpu.blocks):
        for operation in block.operations:
            if operation.op == "barrier" and operation.barrier is not None and operation.blocks is not None:
                users[operation.barrier][t] += 1
                sizes[operation.barrier].add(operation.blocks)
    for barrier, by_block in sorted(users.items()):
        said = sizes[barrier]
        if said != {len(by_block)}:
            text = f"barrier {barrier} is met by {len(by_block)} thread blocks but says {sorted(said)[:4]}"
            yield "plan-barrier-count", text
        elif len(set(by_block.values())) > 1:
            yield "plan-barrier-unequal", f"thread blocks meet barrier {barrier} unequally often"


def operation_defects(plan: Plan, gpu: GpuPlan, block: PlanBlock, operation: PlanOperation) -> Iterator[Defect]:
    """Yield what is wrong with ``operation`` of ``block``, a thread block whose own tables are in order."""
    op, kind, src, dst = operation.op, operation.channel_type, operation.src, operation.dst
    if len(src) > MAX_SLICES or len(dst) > MAX_SLICES:
        yield "plan-slice-limit", f"more than {MAX_SLICES} slices on one side"
    if len(operation.channels) > MAX_CHANNELS_OF_OPERATION:
        text = f"{len(operation.channels)} channels, at most {MAX_CHANNELS_OF_OPERATION} an operation"
        yield "plan-operation-channels", text
    reachable = 0 if kind is None else len(block.buffers(kind))
    for part in (*src, *dst) if op not in SHAPES else ():
        if isinstance(part, RemoteSlice) and part.buffer_id >= reachable:
            text = f"buffer_id {part.buffer_id}: the thread block has {reachable} over {kind or 'no'} channels"
            yield "plan-buffer-id", f"{text}, and the loader looks it up though `{op}` moves nothing"
            break
    single = op in _NOTIFIES or (op in _ON_PORTS and kind == "port")
    entries = len(operation.channels) if single else len(operation.semaphores)
    if 1 <= plan.threads < entries:
        yield "plan-threads", f"`{op}` has {entries} entries, one for a thread each, and there are {plan.threads}"
    if op in ("barrier", "sem_acquire", "sem_release"):
        yield from _local_synchronization(gpu, operation)
        return
    if kind is None and (op in _NOTIFIES or (op in SHAPES and op not in _LOCAL)):
        yield "plan-channel-type", f"`{op}` needs a channel_type"
        return
    if op in SHAPES:
        yield from _slices(plan, gpu, block, operation)
    if kind is not None:
        yield from _channels(block, operation, kind)


def _local_synchronization(gpu: GpuPlan, operation: PlanOperation) -> Iterator[Defect]:
    op, semaphores = operation.op, operation.semaphores
    if op == "barrier":
        if operation.barrier is None or operation.blocks is None:
            yield "plan-barrier-incomplete", "`barrier` needs barrier_id and num_threadblocks"
        elif operation.barrier >= MAX_BARRIERS:
            yield "plan-barrier-limit", f"barrier_id {operation.barrier}: there are {MAX_BARRIERS}, from 0"
    elif not semaphores:
        yield "plan-no-semaphore", f"`{op}` names no semaphore"
    elif len(semaphores) > MAX_SEMAPHORES_OF_OPERATION:
        text = f"{len(semaphores)} semaphores, at most {MAX_SEMAPHORES_OF_OPERATION} an operation"
        yield "plan-semaphore-limit", text
    elif max(semaphores) >= len(gpu.semaphores):
        yield "plan-semaphore-range", f"semaphore {max(semaphores)}: the GPU has {len(gpu.semaphores)}"
    elif len(set(semaphores)) < len(semaphores):
        yield "plan-semaphore-twice", f"`{op}` names a semaphore twice"


def _channels(block: PlanBlock, operation: PlanOperation, kind: ChannelType) -> Iterator[Defect]:
    op, channels, there, targets = operation.op, operation.channels, block.channels(kind), len(operation.dst)
    if any(c >= len(there) for c in channels):
        text = f"channel {max(channels)}: the thread block has {len(there)} {kind} channels"
        yield "plan-no-such-channel", text
    if op in _NOTIFIES and not channels:
        yield "plan-no-channel", f"`{op}` names no channel"
    ends = [there[c] for c in channels if c < len(there)]
    if op in _NOTIFIES and len(set(ends)) < len(ends):
        yield "plan-channel-twice", f"`{op}` names a channel twice: two threads would use it at once"
    if op == "flush" and not len(channels) <= targets <= MAX_CHANNELS_OF_OPERATION:
        text = f"`flush` of {len(channels)} channels has {targets} dst_buff: the runtime counts these, thread i"
        yield "plan-flush-count", f"{text} flushes channel_ids[i] if there is a dst_buff[i]"
    if op in ("flush", "pws", "pwsf") and kind == "memory":
        yield "plan-port-only", f"`{op}` is for port channels"
    if op in ("get", "res", "rre", "rres", "respkt", "recspkt") and kind == "port":
        yield "plan-memory-only", f"`{op}` reads or writes peers directly: a port channel cannot"
    if op in _ON_PORTS and kind == "port" and len(channels) != targets:
        yield "plan-channel-each", f"{len(channels)} channels for {targets} slices: one carries each"


def _slices(plan: Plan, gpu: GpuPlan, block: PlanBlock, operation: PlanOperation) -> Iterator[Defect]:
    op, src, dst = operation.op, operation.src, operation.dst
    for word, parts, letters in zip(("src", "dst"), (src, dst), SHAPES[op], strict=True):
        if not re.fullmatch(letters, "".join("L" if isinstance(part, LocalSlice) else "R" for part in parts)):
            text = f"`{op}` does not take these {word}_buff: {letters} (L local, R remote) is what it takes"
            yield "plan-slice-form", text
            return
    paired = op in PUTS or op in ("get", "ppkt")
    if paired and len(src) != len(dst):
        yield "plan-slice-count", f"`{op}` has {len(src)} sources and {len(dst)} targets"
        return
    pairs = list(zip(src, dst, strict=True)) if paired else [(*src, *dst)]
    if any(len({part.size for part in pair}) > 1 for pair in pairs):
        yield "plan-slice-size", f"`{op}` moves between slices of different sizes"
    if op == "get" and any(pair[0].index != pair[1].index for pair in pairs):
        yield "plan-get-exchanged", "`get` between different indices: the runtime exchanges the two offsets"
    buffers = {part.buffer for part in src if isinstance(part, LocalSlice)}
    if op in ("put", "ppkt") and operation.channel_type == "memory" and len(buffers) > 1:
        text = f"`{op}` from different buffers: the runtime takes all from that of the first slice"
        yield "plan-put-one-buffer", text
    wrong = list(chain.from_iterable(_range(plan, gpu, block, operation, part) for part in (*src, *dst)))
    yield from wrong
    if not wrong and op in PACKET_OPS:
        read, written = packets_of(operation)
        packets = {home(gpu, block, operation, part)[1] for part in (*src[read:], *dst[written:])}
        if plan.protocol != "LL":
            yield "plan-packets", f"`{op}` in a plan of protocol {plan.protocol}: scratch has room for data alone"
        elif packets != {"s"}:
            yield "plan-packets", f"`{op}` takes packets from or to another buffer than scratch"


def _scratch_uses(gpu: GpuPlan, block: PlanBlock, operation: PlanOperation) -> Iterator[tuple[Rank, ScratchUse]]:
    """Yield whose scratch an operation uses, and what for: the kernel shifts packets, and data of its own GPU, to
    the half of a double buffer that is in use."""
    if operation.op in SHAPES:
        for first, side in zip(packets_of(operation), (operation.src, operation.dst), strict=True):
            for k, part in enumerate(side):
                owner, buffer = home(gpu, block, operation, part)
                far = owner != gpu.rank or operation.channel_type == "port"
                if buffer == "s":
                    yield owner, "packets" if k >= first else "data from afar" if far else "data"


def packets_of(operation: PlanOperation) -> tuple[int, int]:
    """Return from which of its sources on, and from which of its targets on, an operation takes packets."""
    op, sources, targets = operation.op, len(operation.src), len(operation.dst)
    read = 0 if op in ("rppkt", "upkt") else 1 if op in ("repkt", "respkt", "recpkt", "recspkt") else sources
    written = 0 if op in ("ppkt", "rppkt", "cpkt") else 1 if op in PACKET_OPS else targets
    return read, written


def _range(plan: Plan, gpu: GpuPlan, block: PlanBlock, operation: PlanOperation, part: Slice) -> Iterator[Defect]:
    if part.size < 1:
        yield "plan-empty-slice", "a slice of no chunks"
        return
    kind = operation.channel_type or "memory"
    channels, there = block.channels(kind), len(block.buffers(kind))
    if isinstance(part, RemoteSlice) and part.buffer_id >= there:
        yield "plan-buffer-id", f"buffer_id {part.buffer_id}: the thread block has {there} over {kind} channels"
        return
    rank, name = home(gpu, block, operation, part)
    if rank >= plan.ranks:
        return
    near = {gpu.peers(kind)[channels[c]] for c in operation.channels if c < len(channels)}
    if near and kind == "port" and rank not in near and isinstance(part, RemoteSlice):
        yield "plan-other-peer", f"`{operation.op}` into gpu {rank}: none of its channels leads there"
    owner = gpu if rank == gpu.rank else plan.gpus[rank]
    room = {"i": owner.input_chunks, "o": owner.output_chunks, "s": owner.scratch_chunks}[name]
    if part.index + part.size > room:
        touched = shown(BufferSlice(name, part.index), part.size)
        yield "plan-range", f"touches {touched} of gpu {rank}, which has {room} chunks"


def home(gpu: GpuPlan, block: PlanBlock, operation: PlanOperation, part: Slice) -> tuple[Rank, Buffer]:
    """Return the rank whose memory a slice is, and the buffer."""
    if isinstance(part, LocalSlice):
        return gpu.rank, part.buffer
    remote = gpu.remote_buffers[block.buffers(operation.channel_type or "memory")[part.buffer_id]]
    return remote.rank, remote.buffer
