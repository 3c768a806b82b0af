"""The linter: what one runtime makes of an MSCCL XML file, and what becomes of it there.

In: what reader.read_program returns, and a target. Out, per target, two answers: whether its reader takes the
file (``acceptance``), and everything that makes it refuse, crash, hang, be ignored, or compute wrong data
(``lint``). Knows no synthesizer and no emitter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Literal, get_args

from hetesynth.judge.msccl.checks import structure
from hetesynth.judge.msccl.findings import MAX_FINDINGS, Findings
from hetesynth.judge.msccl.judge import execute, large_message_violations
from hetesynth.judge.msccl.lint_limits import limits, peers_refused, sizes_refused
from hetesynth.judge.msccl.lint_metadata import metadata, smallest_message
from hetesynth.judge.msccl.lint_readers import reader_of
from hetesynth.judge.msccl.reader import ReadResult
from hetesynth.judge.msccl.rules import BY_ID, RULES, Stage
from hetesynth.model.program import Program
from hetesynth.model.target import Target
from hetesynth.model.topology import Rank
from hetesynth.model.verdict import Violation

Acceptance = Literal["accepted", "refused", "crashes"]
UNBOUNDED = 10**9


@dataclass(frozen=True, slots=True)
class TargetVerdict:
    """What one runtime makes of a file: whether its reader takes it, and all that is wrong with it there."""

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
    """Errors for ``target``; empty means that its reader takes the file and that it runs right.

    ``root``, ``links``: as in judge.program_violations. ``sms``: multiprocessors of a GPU; None: those of the
    smallest usual GPU of the target.
    """
    return list(lint_targets(read, [target], root=root, links=links, sms=sms)[0].violations)


def lint_targets(
    read: ReadResult,
    targets: Iterable[Target],
    *,
    root: Rank | None = None,
    links: Collection[tuple[int, int]] | None = None,
    sms: int | None = None,
) -> list[TargetVerdict]:
    """What several targets make of a file. The program is executed once for all with equal FIFOs, and again, if it
    is right, with messages as short as the largest call that selects the file makes them."""
    shared = _structure(read, links)
    executed: dict[int, list[Violation]] = {}
    parted: dict[tuple[int, int], list[Violation]] = {}
    verdicts: list[TargetVerdict] = []
    for target in targets:
        violations = [*_read(read, target), *shared, *_of_target(read, target, sms or target.multiprocessors)]
        acceptance = _acceptance(violations)
        if read.program is not None and not shared:
            slots = target.slots(read.program.protocol)
            if slots not in executed:
                executed[slots] = _executed(read, read.program, slots, root)
            violations += executed[slots]
            key = slots, smallest_message(read.algo, read.program, target)
            if key not in parted and not executed[slots]:
                parted[key] = large_message_violations(read, slots=slots, root=root, split=key[1])
            violations += parted.get(key, [])
        verdicts.append(TargetVerdict(target.name, acceptance, tuple(_shown(violations))))
    return verdicts


def _acceptance(violations: Iterable[Violation]) -> Acceptance:
    stages = {_stage(v) for v in violations}
    return "refused" if "read" in stages else "crashes" if "crash" in stages else "accepted"


def _read(read: ReadResult, target: Target) -> list[Violation]:
    """What was found while reading, as it concerns ``target``."""
    refused, run = RULES["residual-add"].id, RULES["residual-add-run"].id
    research = target.name == "msccl"
    return [replace(v, rule=run) if research and v.rule == refused else v for v in read.violations]


def _structure(read: ReadResult, links: Collection[tuple[int, int]] | None) -> list[Violation]:
    """What is wrong for every target without running."""
    if read.program is None:
        return []
    findings = Findings(read.program, read.lines, UNBOUNDED)
    structure(findings, links)
    return findings.violations


def _of_target(read: ReadResult, target: Target, sms: int | None) -> list[Violation]:
    violations = metadata(read.algo, read.program, read.algo_line, target) if read.algo_line is not None else []
    if read.program is None:
        return violations
    findings = Findings(read.program, read.lines, UNBOUNDED)
    limits(findings, target, read.numbers, sms, read.later)
    reader = reader_of(target)
    if reader.checks_peers:
        peers_refused(findings)
    if reader.checks_sizes and read.program.collective not in ("gather", "scatter"):
        sizes_refused(findings)
    return violations + findings.violations


def _executed(read: ReadResult, program: Program, slots: int, root: Rank | None) -> list[Violation]:
    findings = Findings(program, read.lines)
    execute(findings, slots, root)
    return findings.violations


def _stage(violation: Violation) -> Stage:
    return BY_ID[violation.rule or ""].stage


def _shown(violations: list[Violation]) -> list[Violation]:
    """At most MAX_FINDINGS, at least one of each rule, those of the reader first."""
    ranked = sorted(violations, key=lambda v: get_args(Stage).index(_stage(v)))
    firsts: list[Violation] = []
    rest: list[Violation] = []
    seen: set[str | None] = set()
    for v in ranked:
        (rest if v.rule in seen else firsts).append(v)
        seen.add(v.rule)
    kept = {id(v) for v in [*firsts, *rest][:MAX_FINDINGS]}
    return [v for v in ranked if id(v) in kept]
