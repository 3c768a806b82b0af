"""The linter: what one runtime makes of an MSCCL XML file, and what becomes of it there.

``lint`` and ``lint_targets`` say whether the reader of a target takes the file, and everything that makes it
refuse, crash, hang, be ignored, or compute wrong data. Warnings are about calls and networks: nothing is wrong
with the program, so whether they matter depends on the job.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from hetesynth.judge.layout import ROOTED
from hetesynth.judge.msccl.checks import structure
from hetesynth.judge.msccl.judge import execute, large_message_violations
from hetesynth.judge.msccl.lint_readers import contradictions, limits, reader_of
from hetesynth.judge.msccl.reader import ReadResult
from hetesynth.judge.rules import BY_ID, MAX_FINDINGS, RULES, ProgramFindings, Stage, violation
from hetesynth.model.program import Program
from hetesynth.model.target import PORTABLE, Target
from hetesynth.model.topology import Rank
from hetesynth.model.verdict import Violation

Acceptance = Literal["accepted", "refused", "crashes"]
UNBOUNDED = 10**9
_COMMON = frozenset({"proto", "nchannels", "nchunksperloop", "ngpus", "coll", "inplace"})
"""The attributes that every reader demands; one that is missing is reported when the file is read."""


@dataclass(frozen=True, slots=True)
class TargetVerdict:
    """The verdict of one runtime on a file: whether its reader takes it, and all that is wrong with it there."""

    target: str
    acceptance: Acceptance
    violations: tuple[Violation, ...]


def lint(
    read: ReadResult,
    target: Target,
    *,
    root: Rank | None = None,
    links: Collection[tuple[int, int]] | None = None,
    sms: int | None = None,
) -> list[Violation]:
    """Return the errors for ``target``; empty means that its reader takes the file and that it runs right.
    ``root``, ``links``: as in judge.program_violations. ``sms``: multiprocessors of a GPU; None: those of the
    smallest usual GPU of the target."""
    return list(lint_targets(read, [target], root=root, links=links, sms=sms)[0].violations)


def lint_targets(
    read: ReadResult,
    targets: Iterable[Target],
    *,
    root: Rank | None = None,
    links: Collection[tuple[int, int]] | None = None,
    sms: int | None = None,
) -> list[TargetVerdict]:
    """Return the verdicts of several targets on a file. The program is executed once for all with equal FIFOs, and
    again, if it is right, with messages as short as the largest call that selects the file makes them."""
    shared: list[Violation] = []  # what is wrong for every target without running
    if read.program is not None:
        findings = ProgramFindings(read.program, read.lines, UNBOUNDED)
        structure(findings, links)
        shared = findings.violations
    executed: dict[int, list[Violation]] = {}
    parted: dict[tuple[int, int], list[Violation]] = {}
    verdicts: list[TargetVerdict] = []
    for target in targets:
        violations = list(read.violations)
        if target.name == "msccl":
            refused, run = RULES["residual-add"].id, RULES["residual-add-run"].id
            violations = [replace(v, rule=run) if v.rule == refused else v for v in violations]
        violations += shared
        violations += metadata(read, target)
        if read.program is not None:
            findings = ProgramFindings(read.program, read.lines, UNBOUNDED)
            limits(findings, target, read.numbers, sms or target.multiprocessors, read.later)
            contradictions(findings, target)
            violations += findings.violations
        stages = {_stage(v) for v in violations}
        acceptance: Acceptance = "refused" if "read" in stages else "crashes" if "crash" in stages else "accepted"
        if read.program is not None and not shared:
            slots = target.slots(read.program.protocol)
            if slots not in executed:
                findings = ProgramFindings(read.program, read.lines)
                execute(findings, slots, root)
                executed[slots] = findings.violations
            violations += executed[slots]
            key = slots, smallest_message(read, read.program, target)
            if key not in parted and not executed[slots]:
                parted[key] = large_message_violations(read, slots=slots, root=root, split=key[1])
            violations += parted.get(key, [])
        ranked = sorted(violations, key=lambda v: get_args(Stage).index(_stage(v)))  # those of the reader first
        firsts = {v.rule: v for v in reversed(ranked)}  # at least one of each rule is shown
        rest = [v for v in ranked if firsts[v.rule] is not v]
        kept = {id(v) for v in [*firsts.values(), *rest][:MAX_FINDINGS]}
        verdicts.append(TargetVerdict(target.name, acceptance, tuple(v for v in ranked if id(v) in kept)))
    return verdicts


def _stage(violation: Violation) -> Stage:
    return BY_ID[violation.rule or ""].stage


def metadata(read: ReadResult, target: Target) -> list[Violation]:
    """Return what is wrong with the attributes of <algo> for ``target``: one that its reader demands is missing, a
    value is unknown to it, or it never selects the file."""
    if read.algo_line is None:
        return []
    reader, who, attributes, program = reader_of(target), target.runtime, read.algo, read.program
    required = frozenset(target.required_attributes) | reader.required
    defects = [
        ("metadata-missing", f"attribute `{name}` is missing on <algo>; {who} refuses the file")
        for name in sorted(required - _COMMON - attributes.keys())
    ]
    word = attributes.get("coll")
    if word is not None and word not in reader.words:
        text = f'coll="{word[:40]}" is unknown to {who}, which takes {", ".join(sorted(reader.words))}'
        defects.append(("collective-refused", text))
    if program is not None:
        low, high = program.min_bytes, _high(read, program, target)
        unlimited = high == 0 and target.open_max_bytes == 0
        if reader.checks_order and low > high:
            defects.append(("min-above-max", f"minBytes={low} exceeds maxBytes={high}; {who} refuses the file"))
        elif not unlimited and (low > high or high == 0 or (low == high and not target.max_bytes_inclusive)):
            text = f"minBytes={low}, maxBytes={high}: {who} selects the file for no size"
            defects.append(("never-selected", text))
        if program.collective in reader.uncalled:
            text = f"no call of {who} reaches MSCCL as {program.collective}: the file never runs there"
            defects.append(("never-selected", text))
        if program.collective in reader.mode_ignored and program.in_place and not program.out_of_place:
            text = f"{who} has no {program.collective} in place and runs this file for calls out of place"
            defects.append(("in-place-ignored", text))
        if not program.in_place and not program.out_of_place:
            text = "neither inplace nor outofplace is 1: no runtime can ever select this file"
            defects.append(("never-selected", text))
        threads = attributes.get("nthreads", "0")
        if threads.isdecimal() and int(threads[-9:]) % reader.thread_multiple:  # which divides 10^9
            text = f"nthreads={threads[:40]} is no multiple of {reader.thread_multiple}"
            defects.append(("bad-nthreads", text))
    return [violation(rule, text, read.algo_line) for rule, text in defects]


def smallest_message(read: ReadResult, program: Program, target: Target) -> int:
    """Return the chunks that a message still carries in the largest call for which ``target`` selects the file,
    buffers being the default ones: 1 where no size is too large."""
    high = _high(read, program, target)
    if high <= 0:
        return 1
    largest = -(-high // program.chunks_per_loop)  # bytes of a chunk
    return max(1, target.fifo(program.protocol, program.collective).batch_bytes // largest)


def _high(read: ReadResult, program: Program, target: Target) -> int:
    """Return the bytes of the largest call that selects the file; 0 is no limit, or no call at all."""
    return program.max_bytes if "maxBytes" in read.algo else reader_of(target).default_max_bytes


def call_warnings(read: ReadResult, target: Target) -> list[Violation]:
    """Return what an operator must know of the calls that run the file before ``target`` is given it."""
    program = read.program
    if program is None or program.collective not in ROOTED:
        return []
    name, root = program.collective, "one root" if program.root is None else f"root {program.root}"
    warnings = []
    if name in target.collectives and not target.tells_roots:
        text = f"it is for {root}, but runs for every {name} whatever its root: others get wrong data"
        warnings.append(violation("any-root", text, read.algo_line))
    if target.name == "portable" and name in ("gather", "scatter"):
        text = f"of all runtimes only RCCL runs a file for a {name}"
        warnings.append(violation("never-selected", text, read.algo_line))
    return warnings


def network_violations(
    program: Program, targets: Sequence[Target], servers: Sequence[str] | None = None
) -> list[Violation]:
    """Return at most one finding about a program that crosses NICs: a proxy moves the steps of a connection that
    it was told of; docs/targets.md says what follows where the interpreter makes others.

    ``targets``: none, and it is about the portable one. ``servers``: that of each rank; None: not known, and the
    finding says for which connections it holds.
    """
    fifos = [target.fifo(program.protocol, program.collective) for target in targets or (PORTABLE,)]
    disagreeing = next((fifo for fifo in fifos if not fifo.proxy_agrees), None)
    sends = {(g.rank, b.send_peer) for g in program.gpus for b in g.thread_blocks if b.send_peer is not None}
    if servers is not None:
        ranks = range(len(servers))
        sends = {(a, b) for a, b in sends if a in ranks and b in ranks and servers[a] != servers[b]}
    if disagreeing is None or not (sends or servers is None):
        return []
    text = (
        f"{program.protocol} {program.collective}: over a NIC the proxy is told of {disagreeing.host_steps} step "
        f"a message and the interpreter makes {disagreeing.kernel_steps}; as read, it hangs between servers"
    )
    return [violation("network-steps", text)]
