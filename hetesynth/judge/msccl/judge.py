"""The second judge: executes the instructions that a file holds and says what is wrong with them.

It derives buffers, aliasing and the expected data itself and shares no code with what made the program. Three
questions, three functions, each of what reader.read_program returns, or of a Program:

- ``program_violations``: what makes every runtime refuse the file, or hangs, crashes or corrupts when it runs:
  malformed XML, missing attributes, limits that no runtime exceeds, connections, ranges, dependences, deadlock,
  races, wrong data.
- ``large_message_violations``: what hangs or races only where large chunks split messages.
- ``profile_violations``: what only some runtime minds: the limits, instructions and spellings of the portable
  profile. A production file with fused receives is correct in the first sense and has findings here.
"""

from collections import Counter
from collections.abc import Collection

import numpy as np

from hetesynth.judge.layout import ROOTED
from hetesynth.judge.msccl.checks import RECEIVES, SENDS, program_layout, structure
from hetesynth.judge.msccl.execution import Execution, buffers_touched
from hetesynth.judge.msccl.lint_readers import ANY, limits
from hetesynth.judge.msccl.reader import ReadResult
from hetesynth.judge.rules import MAX_FINDINGS, Place, ProgramFindings
from hetesynth.model import column
from hetesynth.model.collective import MAX_GUESSED_ROOTS
from hetesynth.model.program import Program, ThreadBlock
from hetesynth.model.step_table import in_ops, table_of, table_of_all
from hetesynth.model.target import PORTABLE
from hetesynth.model.topology import Rank
from hetesynth.model.verdict import Violation

MAX_BLOCKS = 32768
"""Thread blocks of a program that is executed, all GPUs together: 64 on each of 512."""
MAX_WORK = 3 * 10**10
"""Thread blocks times chunks moved."""
MAX_GUESSED_WORK = 1_000_000
"""Instructions executed in search of a root that is not stated."""


def program_violations(
    source: ReadResult | Program,
    *,
    slots: int | None = None,
    root: Rank | None = None,
    links: Collection[tuple[int, int]] | None = None,
    sms: int | None = None,
    max_findings: int = MAX_FINDINGS,
) -> list[Violation]:
    """Return what crashes, hangs or corrupts at run time, at most ``max_findings``; empty means correct.

    ``slots``: messages a connection holds (2 for Simple, 8 for LL and LL128 unless given). ``root``: overrides
    what the program says; when neither says, the root for which the data is right. ``links``: (source,
    destination) pairs that exist. ``sms``: multiprocessors of a GPU, if known. Both aliasings are executed when
    the program claims both.
    """
    read = ReadResult(source, ()) if isinstance(source, Program) else source
    if read.program is None:
        return list(read.violations[:max_findings])
    findings = ProgramFindings(read.program, read.lines, max_findings)
    findings.violations += read.violations[:max_findings]
    limits(findings, ANY, read.numbers, sms, read.later)
    before = len(findings.violations)
    structure(findings, links)
    if len(findings.violations) == before and not findings.full:
        execute(findings, slots, root)
    return findings.violations


def large_message_violations(
    source: ReadResult | Program, *, slots: int | None = None, root: Rank | None = None, split: int = 1
) -> list[Violation]:
    """Return what goes wrong once chunks are so large that runtimes send ``cnt`` > 1 in several messages.
    ``split``: the chunks that a message still carries; 1, the worst case, unless calls are known to be smaller.
    Empty when no message splits, and when what shows without running forbids to execute it."""
    read = ReadResult(source, ()) if isinstance(source, Program) else source
    if read.program is None:
        return []
    rows, _ = table_of_all(read.program)
    if rows[in_ops(rows, SENDS | RECEIVES), column.COUNT].max(initial=0) <= split:
        return []
    findings = ProgramFindings(read.program, read.lines)
    structure(findings, None)
    if findings.violations or _too_large(findings):
        return []
    root = _root(findings, slots, root)
    if not findings.violations:
        _execute(findings, slots, root, split)
    return findings.violations


def _too_large(findings: ProgramFindings) -> bool:
    """Return True, with a finding, if executing takes too much memory (square of the thread blocks) or time."""
    rows, first = table_of_all(findings.program)
    blocks, chunks = len(first) - 1, int(np.maximum(1, rows[:, column.COUNT]).sum())
    if blocks <= MAX_BLOCKS and blocks * chunks <= MAX_WORK:
        return False
    moved = f"{blocks} thread blocks that move {chunks} chunks"
    findings.add("too-much-work", f"{moved} are more than is executed here: nothing is known of it")
    return True


def execute(findings: ProgramFindings, slots: int | None, root: Rank | None) -> None:
    """Run a program after ``structure``: deadlock, races, data. ``slots``, ``root``: of ``program_violations``."""
    if _too_large(findings):
        return
    root = _root(findings, slots, root)
    if root is not None or findings.program.collective not in ROOTED:
        _execute(findings, slots, root)


def _execute(findings: ProgramFindings, slots: int | None, root: Rank | None, split: int = 0) -> None:
    """Run the program for each aliasing that the file claims (out of place when it claims none). ``split``: the
    chunks of a message, 0: all that its instruction says."""
    program = findings.program
    claims = [flag for flag, claimed in ((False, program.out_of_place), (True, program.in_place)) if claimed]
    for in_place in claims or [False]:
        layout = program_layout(program, in_place, root)
        findings.context = "" if len(claims) < 2 else "in place: " if in_place else "out of place: "
        if split:
            at_most = f"{split} chunks" if split > 1 else "one chunk"
            findings.context += f"once chunks are so large that a message has {at_most}: "
        before = len(findings.violations)
        buffers_touched(layout, findings)
        if len(findings.violations) == before:
            Execution(layout, slots or PORTABLE.slots(program.protocol), findings, split).run()


def _root(findings: ProgramFindings, slots: int | None, root: Rank | None) -> Rank | None:
    """Return the root given, or stated, or else, of a rooted collective, the one for which the program is right;
    None, with a finding, when that is no rank."""
    program = findings.program
    if root is None:
        root = program.root
    if program.collective not in ROOTED:
        return root
    if root is not None:
        if 0 <= root < program.ranks:
            return root
        findings.add("bad-root", f"root {root} is no rank: there are {program.ranks}")
        return None
    # the ranks that receive (broadcast, scatter) or send (reduce, gather) least first
    ops = RECEIVES if program.collective in ("broadcast", "scatter") else SENDS
    moved: Counter[Rank] = Counter()
    for gpu in program.gpus:
        moved[gpu.rank] += sum(x.count for block in gpu.thread_blocks for x in block.instructions if x.op in ops)
    candidates = sorted(range(program.ranks), key=lambda rank: (moved[rank], rank))
    instructions = sum(len(block.instructions) for gpu in program.gpus for block in gpu.thread_blocks)
    trials = min(MAX_GUESSED_ROOTS, MAX_GUESSED_WORK // (1 + instructions))
    for candidate in candidates[: max(1, trials)]:
        trial = ProgramFindings(program, findings.lines, 1)
        _execute(trial, slots, candidate)
        if not trial.violations:
            return candidate
    text = f"{program.collective}: no root is stated and the program is right for none; taken: {candidates[0]}"
    findings.add("no-right-root", text)
    return candidates[0]


def profile_violations(source: ReadResult | Program) -> list[Violation]:
    """Return what the portable profile forbids but some runtime accepts, at most MAX_FINDINGS of the program; what
    every runtime minds is not repeated. Empty means that every runtime reads it.

    A program that only leaves the profile may well be correct where it was made for. The profile takes the
    smallest limits among the research runtime, the executor and RCCL 6 (``model.target.PORTABLE``).
    """
    read = ReadResult(source, ()) if isinstance(source, Program) else source
    program = read.program
    if program is None:
        return list(read.portability)
    findings = ProgramFindings(program, read.lines)
    used = [b.channel for gpu in program.gpus for b in gpu.thread_blocks]
    if used and program.channels > max(used) + 1:
        text = f"nchannels={program.channels}, but the highest channel in use is {max(used)}"
        findings.add("unused-channels", f"{text}: the others are set up for nothing")
    if program.collective in ROOTED and program.root is None:
        findings.add("root-unstated", f"the root of the {program.collective} is not stated (attribute `root`)")
    everywhere, shared = ProgramFindings(program, read.lines), ProgramFindings(program, read.lines)
    limits(everywhere, ANY, read.numbers)
    limits(shared, PORTABLE, read.numbers)
    fatal = {(v.rule, v.rank, v.thread_block, v.step) for v in everywhere.violations}
    new = [v for v in shared.violations if (v.rule, v.rank, v.thread_block, v.step) not in fatal]
    findings.violations += new[: findings.limit - len(findings.violations)]
    sending: dict[tuple[Rank | None, Rank | None, int], ThreadBlock] = {}
    sending |= {(gpu.rank, b.send_peer, b.channel): b for gpu in program.gpus for b in gpu.thread_blocks}
    for g, gpu in enumerate(program.gpus):
        published = {b.id: table_of(b.instructions)[:, column.AWAITED].tolist() for b in gpu.thread_blocks}
        for t, block in enumerate(gpu.thread_blocks):
            rows = table_of(block.instructions)
            # peers without a step, dependences met only because a later step publishes, and receives that do not
            # repeat the plain send they meet: these work on GPUs, but not in every simulator
            sends, receives = in_ops(rows, SENDS), in_ops(rows, RECEIVES)
            idle = block.send_peer is not None and not sends.any()
            if idle or (block.recv_peer is not None and not receives.any()):
                text = "has a peer that no step uses; a connection is set up for nothing"
                findings.add("idle-connection", text, Place(g, t))
            waits = np.flatnonzero(rows[:, column.BLOCK] >= 0)
            named = rows[waits, column.BLOCK : column.STEP + 1].tolist()
            for s, (number, step) in zip(waits.tolist(), named, strict=True):
                awaited = published.get(number, [])
                if 0 <= step < len(awaited) and not awaited[step]:
                    text = f"depends on step {step} of thread block {number}, which lacks hasdep=1"
                    findings.add("published-later", text, Place(g, t, s))
            sender = sending.get((block.recv_peer, gpu.rank, block.channel))
            if sender is None:
                continue
            sent, met = table_of(sender.instructions), np.flatnonzero(receives)
            sent = sent[in_ops(sent, SENDS)][: len(met)]
            got = rows[met[: len(sent)]]
            plain, ends = in_ops(sent, ("s",)) & in_ops(got, ("r",)), slice(column.SRC_BUFFER, column.COUNT)
            other = np.flatnonzero(plain & (sent[:, ends] != got[:, ends]).any(axis=1))
            if len(other):
                text = "the receive does not repeat the buffers and offsets of the send it meets"
                findings.add("not-mirrored", text, Place(g, t, int(met[other[0]])))
    return [*read.portability, *findings.violations]
