"""The limits of runtimes: those that none exceeds, and the portable profile that all share.

In: a program. Out: findings about limits, instructions and conventions. A program that only leaves the portable
profile may well be correct where it was made for.

No runtime exceeds 71 chunks an instruction, 4095 stored nodes (1 + GPUs + own thread blocks + own steps), 256
steps a thread block, 1024 thread blocks a GPU, channels 0 to 127, 16-bit offsets, 8-bit dependence targets.
The portable profile takes the smallest limits among the research runtime, the executor and RCCL 6: 64 steps, 64
thread blocks (all must be resident at once), channels 0 to 31, and of the instructions s, r, cpy, re, nop.
"""

from __future__ import annotations

from collections import Counter

from hetesynth.model.program import GpuProgram, Instruction, Program, ThreadBlock
from hetesynth.model.verdict import Violation
from hetesynth.verify.program_findings import MAX_FINDINGS, Findings, Lines, Place
from hetesynth.verify.program_layout import ROOTED

MAX_STEPS = 64
MAX_THREAD_BLOCKS = 64
MAX_CHANNELS = 32
LARGEST_STEPS = 256
LARGEST_THREAD_BLOCKS = 1024
LARGEST_CHANNELS = 128
MAX_COUNT = 71
MAX_NODES = 4095
MAX_BLOCKS_PER_CHANNEL = 32
MAX_OFFSET = 32767
MAX_DEPENDENCE_TARGET = 127
OPS = frozenset({"s", "r", "cpy", "re", "nop"})


def exceeded_everywhere(findings: Findings) -> None:
    """Limits that no runtime exceeds: every one refuses such a file, or cuts the number off."""
    nodes_of_all = 1 + len(findings.program.gpus)
    for g, gpu in enumerate(findings.program.gpus):
        blocks = len(gpu.thread_blocks)
        nodes = nodes_of_all + blocks + sum(len(b.instructions) for b in gpu.thread_blocks)
        if nodes > MAX_NODES:
            findings.add("limit", f"{nodes} stored nodes exceed the {MAX_NODES} that the readers keep", Place(g))
        if blocks > LARGEST_THREAD_BLOCKS:
            findings.add(
                "limit", f"{blocks} thread blocks; no runtime takes over {LARGEST_THREAD_BLOCKS}", Place(g)
            )
        for t, block in enumerate(gpu.thread_blocks):
            steps, place = len(block.instructions), Place(g, t)
            if steps > LARGEST_STEPS:
                findings.add("limit", f"{steps} steps; no runtime takes over {LARGEST_STEPS}", place)
            if block.channel >= LARGEST_CHANNELS:
                findings.add("limit", f"channel {block.channel} exceeds {LARGEST_CHANNELS - 1}", place)
            for s, x in enumerate(block.instructions):
                _numbers(findings, Place(g, t, s), x)


def _numbers(findings: Findings, place: Place, x: Instruction) -> None:
    if x.op != "nop" and x.count > MAX_COUNT:
        findings.add("limit", f"cnt={x.count} exceeds {MAX_COUNT}; every reader refuses it", place)
    for part in (x.src, x.dst):
        if part is not None and x.op != "nop" and part.offset > MAX_OFFSET:
            findings.add("limit", f"offset {part.offset} exceeds {MAX_OFFSET}, what runtimes store", place)
    if x.depends is not None and x.depends[0] > MAX_DEPENDENCE_TARGET:
        text = f"depid={x.depends[0]} exceeds {MAX_DEPENDENCE_TARGET}, what runtimes store"
        findings.add("limit", text, place)


def portable_violations(program: Program, lines: Lines) -> list[Violation]:
    """At most MAX_FINDINGS findings, in the order of the file."""
    findings = Findings(program, lines, MAX_FINDINGS)
    _whole(findings)
    for g, gpu in enumerate(program.gpus):
        _gpu(findings, g, gpu)
        for t, block in enumerate(gpu.thread_blocks):
            _thread_block(findings, Place(g, t), block)
    _mirrored(findings)
    return findings.found


def _whole(findings: Findings) -> None:
    program = findings.program
    used = [b.channel for gpu in program.gpus for b in gpu.thread_blocks]
    if program.channels > MAX_CHANNELS:
        findings.add("limit", f"nchannels={program.channels} exceeds {MAX_CHANNELS}")
    if used and program.channels > max(used) + 1:
        text = f"nchannels={program.channels}, but the highest channel in use is {max(used)}"
        findings.add("attribute", f"{text}: the others are set up for nothing")
    if program.collective in ROOTED and program.root is None:
        findings.add("attribute", f"the root of the {program.collective} is not stated (attribute `root`)")


def _gpu(findings: Findings, g: int, gpu: GpuProgram) -> None:
    blocks = len(gpu.thread_blocks)
    if blocks > MAX_THREAD_BLOCKS:
        text = f"{blocks} thread blocks exceed the {MAX_THREAD_BLOCKS} that every runtime takes"
        findings.add("limit", text, Place(g))
    sending = Counter(b.channel for b in gpu.thread_blocks if b.send_peer is not None)
    receiving = Counter(b.channel for b in gpu.thread_blocks if b.recv_peer is not None)
    for word, counted in (("send", sending), ("receive", receiving)):
        for channel, count in sorted(counted.items()):
            if count > MAX_BLOCKS_PER_CHANNEL:
                text = f"{count} thread blocks {word} on channel {channel}; readers keep {MAX_BLOCKS_PER_CHANNEL}"
                findings.add("limit", text, Place(g))


def _thread_block(findings: Findings, place: Place, block: ThreadBlock) -> None:
    steps = len(block.instructions)
    if steps > MAX_STEPS:
        findings.add("limit", f"{steps} steps exceed the {MAX_STEPS} that every runtime takes", place)
    if block.channel >= MAX_CHANNELS:
        findings.add("limit", f"channel {block.channel} exceeds {MAX_CHANNELS - 1}", place)
    sends = any(x.op in ("s", "rcs", "rrs", "rrcs") for x in block.instructions)
    receives = any(x.op in ("r", "rcs", "rrs", "rrc", "rrcs") for x in block.instructions)
    idle = (block.send_peer is not None and not sends) or (block.recv_peer is not None and not receives)
    if idle:
        findings.add("connection", "has a peer that no step uses; a connection is set up for nothing", place)
    fused: Counter[str] = Counter()
    for s, x in enumerate(block.instructions):
        if x.op not in OPS:
            fused[x.op] += 1
            if fused[x.op] == 1:
                text = f"`{x.op}` is refused at launch by RCCL since ROCm 6.1"
                findings.add("limit", text, Place(place.gpu, place.block, s))
        if x.depends is not None:
            _relaxed_dependence(findings, Place(place.gpu, place.block, s), x.depends)


def _relaxed_dependence(findings: Findings, place: Place, on: tuple[int, int]) -> None:
    """A dependence met only because a later step publishes works on GPUs, but not in every simulator."""
    for target in findings.program.gpus[place.gpu].thread_blocks:
        if target.id == on[0] and 0 <= on[1] < len(target.instructions):
            if not target.instructions[on[1]].has_dependents:
                text = f"depends on step {on[1]} of thread block {on[0]}, which lacks hasdep=1"
                findings.add("dependence", text, place)
            return


def _mirrored(findings: Findings) -> None:
    """A plain send and the receive it meets repeat the same buffers and offsets."""
    program = findings.program
    receiving = {}
    for g, gpu in enumerate(program.gpus):
        for t, block in enumerate(gpu.thread_blocks):
            if block.recv_peer is not None:
                receiving[block.recv_peer, gpu.rank, block.channel] = (g, t, block)
    for gpu in program.gpus:
        for block in gpu.thread_blocks:
            met = receiving.get((gpu.rank, block.send_peer if block.send_peer is not None else -1, block.channel))
            if met is not None:
                _mirror(findings, block, *met)


def _mirror(findings: Findings, sender: ThreadBlock, g: int, t: int, receiver: ThreadBlock) -> None:
    sent = [x for x in sender.instructions if x.op in ("s", "rcs", "rrs", "rrcs")]
    got = [(s, x) for s, x in enumerate(receiver.instructions) if x.op in ("r", "rcs", "rrs", "rrc", "rrcs")]
    for a, (s, b) in zip(sent, got, strict=False):
        if a.op == "s" and b.op == "r" and (a.src, a.dst) != (b.src, b.dst):
            text = "the receive does not repeat the buffers and offsets of the send it meets"
            findings.add("attribute", f"{text}; some simulators demand it", Place(g, t, s))
            return
