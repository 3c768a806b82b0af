"""The second judge: executes the instructions that a file holds and says what is wrong with them.

In: what reader.read_program returns, or a Program. Out: Violations. It derives buffers, aliasing and the
expected data itself and shares no code with what made the program.

Three questions, three functions:

- ``program_violations``: what makes every runtime refuse the file, or hangs, crashes or corrupts when it runs:
  malformed XML, missing attributes, limits that no runtime exceeds, connections, ranges, dependences, deadlock,
  races, wrong data.
- ``large_message_violations``: what hangs or races only where large chunks split messages.
- ``profile_violations``: what only some runtime minds: the limits, instructions and spellings of the portable
  profile. A production file with fused receives is correct in the first sense and has findings here.
"""

from __future__ import annotations

from collections.abc import Collection

from hetesynth.judge.layout import ROOTED
from hetesynth.judge.msccl.buffer_sizes import program_layout
from hetesynth.judge.msccl.checks import RECEIVES, SENDS, structure
from hetesynth.judge.msccl.execution import Execution, buffers_touched
from hetesynth.judge.msccl.findings import MAX_FINDINGS, Findings, Lines
from hetesynth.judge.msccl.lint_limits import limits
from hetesynth.judge.msccl.lint_readers import ANY
from hetesynth.judge.msccl.profile import notes_of, portable_violations
from hetesynth.judge.msccl.reader import ReadResult
from hetesynth.model.collective import MAX_GUESSED_ROOTS
from hetesynth.model.program import Program
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
    """What crashes, hangs or corrupts at run time, at most ``max_findings``; empty means correct.

    ``slots``: messages a connection holds (2 for Simple, 8 for LL and LL128 unless given). ``root``: overrides
    what the program says; when neither says, the root for which the data is right. ``links``: (source,
    destination) pairs that exist. ``sms``: multiprocessors of a GPU, if known. Both aliasings are executed when
    the program claims both.
    """
    program, lines, read_violations = _parts(source)
    if program is None:
        return read_violations[:max_findings]
    findings = Findings(program, lines, max_findings, violations=read_violations[:max_findings])
    if isinstance(source, Program):
        limits(findings, ANY, {}, sms)
    else:
        limits(findings, ANY, source.numbers, sms, source.later)
    before = len(findings.violations)
    structure(findings, links)
    if len(findings.violations) == before and not findings.full:
        execute(findings, slots, root)
    return findings.violations


def large_message_violations(
    source: ReadResult | Program, *, slots: int | None = None, root: Rank | None = None, split: int = 1
) -> list[Violation]:
    """What goes wrong once chunks are so large that runtimes send ``cnt`` > 1 in several messages.

    ``split``: the chunks that a message still carries; 1, the worst case, unless calls are known to be smaller.
    Empty when no message splits, and when what shows without running forbids to execute it.
    """
    program, lines, _ = _parts(source)
    if program is None or longest_message(program) <= split:
        return []
    findings = Findings(program, lines)
    structure(findings, None)
    if findings.violations or _too_large(findings):
        return []
    root = program.root if root is None else root
    if program.collective in ROOTED:
        root = _root(findings, program, lines, slots, root)
    if not findings.violations:
        _execute(findings, slots, root, split)
    return findings.violations


def _too_large(findings: Findings) -> bool:
    """Whether executing would take more memory (square of the thread blocks) or time than a judge should."""
    blocks = sum(len(gpu.thread_blocks) for gpu in findings.program.gpus)
    chunks = sum(
        max(1, x.count) for gpu in findings.program.gpus for b in gpu.thread_blocks for x in b.instructions
    )
    if blocks <= MAX_BLOCKS and blocks * chunks <= MAX_WORK:
        return False
    text = (
        f"{blocks} thread blocks that move {chunks} chunks are more than is executed here: nothing is known of it"
    )
    findings.add("too-much-work", text)
    return True


def execute(findings: Findings, slots: int | None, root: Rank | None) -> None:
    """Runs a program that passed ``structure``: deadlock, races, data. ``slots``, ``root``: as above."""
    program = findings.program
    if _too_large(findings):
        return
    if root is None:
        root = program.root
    if program.collective in ROOTED:
        root = _root(findings, program, findings.lines, slots, root)
        if root is None:
            return
    _execute(findings, slots, root)


def profile_violations(source: ReadResult | Program) -> list[Violation]:
    """What the portable profile forbids but some runtime accepts; empty means that every runtime reads it."""
    if isinstance(source, Program):
        return portable_violations(source, {}, {})
    violations = list(source.portability)
    if source.program is not None:
        violations += portable_violations(source.program, source.lines, source.numbers)
    return violations


def notes(source: ReadResult | Program) -> list[Violation]:
    """What an operator may want to know; nothing is wrong."""
    program, lines, _ = _parts(source)
    return [] if program is None else notes_of(program, lines)


def _parts(source: ReadResult | Program) -> tuple[Program | None, Lines, list[Violation]]:
    if isinstance(source, Program):
        return source, {}, []
    return source.program, source.lines, list(source.violations)


def _execute(findings: Findings, slots: int | None, root: Rank | None, split: int = 0) -> None:
    """One run per aliasing the file claims (out of place when it claims none). ``split``: the chunks of a message,
    0: all that its instruction says."""
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


def longest_message(program: Program) -> int:
    """The most chunks that one instruction sends or receives."""
    instructions = (x for gpu in program.gpus for block in gpu.thread_blocks for x in block.instructions)
    return max((x.count for x in instructions if x.op in SENDS or x.op in RECEIVES), default=0)


def _root(findings: Findings, program: Program, lines: Lines, slots: int | None, root: Rank | None) -> Rank | None:
    """The root given or, when there is none, the one for which the program is right."""
    if root is not None:
        if 0 <= root < program.ranks:
            return root
        findings.add("bad-root", f"root {root} is no rank: there are {program.ranks}")
        return None
    instructions = sum(len(block.instructions) for gpu in program.gpus for block in gpu.thread_blocks)
    trials = min(MAX_GUESSED_ROOTS, MAX_GUESSED_WORK // (1 + instructions))
    candidates = _likely_roots(program)[: max(1, trials)]
    for candidate in candidates:
        trial = Findings(program, lines, 1)
        _execute(trial, slots, candidate)
        if not trial.violations:
            return candidate
    text = f"{program.collective}: no root is stated and the program is right for none; taken: {candidates[0]}"
    findings.add("no-right-root", text)
    return candidates[0]


def _likely_roots(program: Program) -> list[Rank]:
    """Ranks in the order of how little they receive (broadcast, scatter) or send (reduce, gather)."""
    ops = RECEIVES if program.collective in ("broadcast", "scatter") else SENDS
    moved = {
        gpu.rank: sum(x.count for block in gpu.thread_blocks for x in block.instructions if x.op in ops)
        for gpu in program.gpus
    }
    return sorted(range(program.ranks), key=lambda rank: (moved[rank], rank))
