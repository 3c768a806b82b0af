"""What only some runtimes refuse: the portable profile, conventions, and merged reductions.

In: a program. Out: findings. A program that only leaves the portable profile may well be correct where it was
made for. The profile takes the smallest limits among the research runtime, the executor and RCCL 6
(``model.target.PORTABLE``).
"""

from __future__ import annotations

from hetesynth.judge.layout import ROOTED
from hetesynth.judge.msccl.checks import RECEIVES, SENDS, continues
from hetesynth.judge.msccl.findings import MAX_FINDINGS, Findings, Lines, Place
from hetesynth.judge.msccl.lint_limits import Numbers, limits
from hetesynth.judge.msccl.lint_readers import ANY
from hetesynth.model.program import Program, ThreadBlock
from hetesynth.model.target import PORTABLE
from hetesynth.model.topology import Rank
from hetesynth.model.verdict import Violation

MAX_MERGED_REDUCTIONS = 16


def portable_violations(program: Program, lines: Lines, numbers: Numbers) -> list[Violation]:
    """At most MAX_FINDINGS findings; what every runtime minds is not repeated."""
    findings = Findings(program, lines, MAX_FINDINGS)
    _whole(findings)
    _limits(findings, numbers)
    for g, gpu in enumerate(program.gpus):
        blocks = {b.id: b for b in gpu.thread_blocks}
        for t, block in enumerate(gpu.thread_blocks):
            _thread_block(findings, Place(g, t), block, blocks)
    _mirrored(findings)
    return findings.violations


def _limits(findings: Findings, numbers: Numbers) -> None:
    everywhere = Findings(findings.program, findings.lines)
    limits(everywhere, ANY, numbers)
    fatal = {(v.rule, v.rank, v.thread_block, v.step) for v in everywhere.violations}
    shared = Findings(findings.program, findings.lines)
    limits(shared, PORTABLE, numbers)
    new = [v for v in shared.violations if (v.rule, v.rank, v.thread_block, v.step) not in fatal]
    findings.violations += new[: findings.limit - len(findings.violations)]


def _whole(findings: Findings) -> None:
    program = findings.program
    used = [b.channel for gpu in program.gpus for b in gpu.thread_blocks]
    if used and program.channels > max(used) + 1:
        text = f"nchannels={program.channels}, but the highest channel in use is {max(used)}"
        findings.add("unused-channels", f"{text}: the others are set up for nothing")
    if program.collective in ROOTED and program.root is None:
        findings.add("root-unstated", f"the root of the {program.collective} is not stated (attribute `root`)")


def _thread_block(findings: Findings, place: Place, block: ThreadBlock, blocks: dict[int, ThreadBlock]) -> None:
    sends = any(x.op in SENDS for x in block.instructions)
    receives = any(x.op in RECEIVES for x in block.instructions)
    idle = (block.send_peer is not None and not sends) or (block.recv_peer is not None and not receives)
    if idle:
        text = "has a peer that no step uses; a connection is set up for nothing"
        findings.add("idle-connection", text, place)
    for s, x in enumerate(block.instructions):
        if x.depends is not None:
            _relaxed_dependence(findings, Place(place.gpu, place.block, s), x.depends, blocks.get(x.depends[0]))


def _relaxed_dependence(findings: Findings, place: Place, on: tuple[int, int], target: ThreadBlock | None) -> None:
    """A dependence met only because a later step publishes works on GPUs, but not in every simulator."""
    if target is None or not 0 <= on[1] < len(target.instructions):
        return
    if not target.instructions[on[1]].has_dependents:
        text = f"depends on step {on[1]} of thread block {on[0]}, which lacks hasdep=1"
        findings.add("published-later", text, place)


def _mirrored(findings: Findings) -> None:
    """A plain send and the receive it meets repeat the same buffers and offsets."""
    program = findings.program
    receiving: dict[tuple[Rank | None, Rank | None, int], tuple[int, int, ThreadBlock]] = {}
    for g, gpu in enumerate(program.gpus):
        for t, block in enumerate(gpu.thread_blocks):
            receiving[block.recv_peer, gpu.rank, block.channel] = (g, t, block)
    for gpu in program.gpus:
        for block in gpu.thread_blocks:
            met = receiving.get((gpu.rank, block.send_peer, block.channel))
            if met is not None:
                _mirror(findings, block, *met)


def _mirror(findings: Findings, sender: ThreadBlock, g: int, t: int, receiver: ThreadBlock) -> None:
    sent = [x for x in sender.instructions if x.op in SENDS]
    got = [(s, x) for s, x in enumerate(receiver.instructions) if x.op in RECEIVES]
    for a, (s, b) in zip(sent, got, strict=False):
        if a.op == "s" and b.op == "r" and (a.src, a.dst) != (b.src, b.dst):
            text = "the receive does not repeat the buffers and offsets of the send it meets"
            findings.add("not-mirrored", f"{text}; some simulators demand it", Place(g, t, s))
            return


def notes_of(program: Program, lines: Lines) -> list[Violation]:
    """Where readers merge reductions differently from what the steps say; nothing is wrong with such a program."""
    findings = Findings(program, lines, MAX_FINDINGS)
    for g, gpu in enumerate(program.gpus):
        for t, block in enumerate(gpu.thread_blocks):
            _reductions(findings, Place(g, t), block)
    return findings.violations


def _reductions(findings: Findings, place: Place, block: ThreadBlock) -> None:
    merged = 1
    for s in range(1, len(block.instructions)):
        a, b = block.instructions[s - 1], block.instructions[s]
        if not (continues(a, b) and not a.has_dependents):
            merged = 1
            continue
        position = Place(place.gpu, place.block, s)
        if b.depends is not None:
            text = "a dependence inside a run of `re` ends the merging; a nop before the run can carry it"
            findings.add("reduction-split", text, position)
            merged = 1
            continue
        merged += 1
        if merged == MAX_MERGED_REDUCTIONS + 1:
            text = f"a run of `re` into one place is longer than {MAX_MERGED_REDUCTIONS}: readers begin another"
            findings.add("long-reduction", text, position)
