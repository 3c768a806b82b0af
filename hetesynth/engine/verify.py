"""Verification of files that others made: which judge a file needs, and what the judge says, target by target."""

import math
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hetesynth import __version__
from hetesynth.engine.formats import demand_one_run, format_of, head_of
from hetesynth.errors import HetesynthError
from hetesynth.files.regular_files import read_regular
from hetesynth.model.pods import PodCluster
from hetesynth.model.target import PLAN_JSON, TABLE_JSON, TARGETS, XML, FileFormat, Target
from hetesynth.model.topology import Rank, Topology
from hetesynth.model.verdict import Violation
from hetesynth.topology.believable import load_topology
from hetesynth.topology.language import load_pods

Level = Literal["error", "portability", "warning", "note"]
"""Wrong; refused by some runtime (without a target); wrong for some calls, of large size, with another root or
over NICs, or not what it seems; good to know."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation, how much it weighs, and for which of the targets asked for (empty: none was asked for)."""

    level: Level
    violation: Violation
    targets: tuple[str, ...] = ()

    @property
    def help(self) -> str:
        """The advice of the rule; empty where there is no rule."""
        from hetesynth.judge.rules import BY_ID

        rule = self.violation.rule
        return BY_ID[rule].help if rule in BY_ID else ""


UNCHECKED = "HX216"


@dataclass(frozen=True, slots=True)
class Judged:
    """The findings of one file. ``acceptance``: what each target does with the file. ``readable``: False where it
    is not of its kind at all."""

    findings: tuple[Finding, ...]
    acceptance: tuple[tuple[str, str], ...] = ()
    readable: bool = True

    @property
    def data_checked(self) -> bool:
        """False where a file names no collective that says what its data must be, as ``coll="custom"`` does."""
        return all(finding.violation.rule != UNCHECKED for finding in self.findings)

    def count(self, *levels: Level) -> int:
        """Return the number of findings of these levels."""
        return sum(f.level in levels for f in self.findings)


@dataclass(frozen=True, slots=True)
class Question:
    """The question put to a file, with the cluster (``given``) or the file of it (``topology``). ``sms``:
    multiprocessors of a GPU, None: as the target usually has. ``documents``: True if schedules are checked without
    a cluster too, as far as that goes."""

    topology: os.PathLike[str] | None = None
    root: Rank | None = None
    targets: tuple[Target, ...] = ()
    sms: int | None = None
    given: Topology | None = None
    pods: PodCluster | None = None
    documents: bool = False

    def cluster(self, path: Path, ranks: int | None) -> Topology | None:
        """Return the topology to check against, if any. HetesynthError HS604: the file is for another number of
        ``ranks``."""
        topology = self.given
        if topology is None and self.topology is not None:
            topology = load_topology(self.topology)
        if topology is not None and ranks not in (None, topology.ranks):
            message = f"{path} is for {ranks} ranks, {topology.name} has {topology.ranks}"
            raise HetesynthError(message, code="HS604", help="give the topology that the file was made for")
        return topology


def judge_file(path: Path, question: Question) -> Judged:
    """Return the findings of MSCCL XML, an MSCCL++ plan, a table, a composition, and of a schedule where there is
    a cluster to replay it on."""
    demand_one_run(path)
    if is_composition(path):
        return _judge_composition(path, question)
    if is_schedule(path) and (question.documents or question.given is not None or question.topology is not None):
        from hetesynth.engine.schedule_replay import asked_collective, read_schedule, replayed

        schedule = read_schedule(path)
        asked_collective(schedule, str(path))
        cluster = question.cluster(path, schedule.ranks)
        if cluster is None:  # only what the file says of itself
            message = "only its document was checked: --topo replays it"
            return Judged((Finding("note", Violation("file", message)),))
        wrong, notes = replayed(path, schedule, cluster)
        findings = [Finding("error", violation) for violation in wrong]
        return Judged((*findings, *(Finding("note", Violation("certificate", note)) for note in notes)))
    for target in question.targets:
        check_format(path, target)
    return _JUDGES[format_of(path)](path, question)


def is_composition(path: Path) -> bool:
    """Return True if the file at ``path`` begins as a composition does."""
    return b'"hetesynth-composition"' in head_of(path)


def is_schedule(path: Path) -> bool:
    """Return True if the file at ``path`` begins as a schedule JSON does."""
    return b'"hetesynth-schedule"' in head_of(path)


def _judge_composition(path: Path, question: Question) -> Judged:
    """Return the findings on all transfers of a composition, on loads only with a topology: a note says so."""
    from hetesynth.judge.composition.judge import judge_composition
    from hetesynth.search.bounds.pods import composed_bound

    cluster = question.pods
    if cluster is None and question.topology is not None:
        cluster = load_pods(question.topology)
    try:
        data = read_regular(path)
    except OSError as error:
        raise HetesynthError(f"{path} cannot be read: {error.strerror}", code="HS540") from error
    verdict = judge_composition(data, cluster)
    findings = [Finding("error", violation) for violation in verdict.violations]
    document = verdict.document
    if cluster is not None and document is not None and not verdict.violations:
        shape = document.collective, document.chunks, document.chunk_bytes
        proved = math.floor(composed_bound(cluster, *shape).seconds * 10**12)
        if document.claimed_bound > proved:
            message = f"the bound is said to be {document.claimed_bound} ps, and {proved} are proved"
            findings.append(Finding("error", Violation("certificate", message)))
    if cluster is None:
        message = "loads of wires are not checked; --topo gives the cluster"
        findings.append(Finding("note", Violation("overloaded", message)))
    return Judged(tuple(findings), readable=verdict.readable)


def installed(path: Path, target: Target) -> list[Finding]:
    """Return warnings of calls that would unexpectedly run the file at ``path`` once ``target`` has it; none of a
    file that cannot be read, of which ``judge_file`` says why."""
    check_format(path, target)
    violations: list[Violation] = []
    with suppress(HetesynthError):
        if target.format.program:
            from hetesynth.judge.msccl.linter import call_warnings, metadata
            from hetesynth.judge.msccl.reader import load_program

            read = load_program(path)
            violations += [*metadata(read, target), *call_warnings(read, target)]
        elif target.format.plan:
            from hetesynth.judge.mscclpp.judge import plan_warnings
            from hetesynth.judge.mscclpp.reader import load_plan

            violations += plan_warnings(load_plan(path, packets=True))
    return [Finding("warning", violation, (target.name,)) for violation in violations]


def check_format(path: Path, target: Target) -> None:
    """Raise HetesynthError HS540: no such file; HS543: its run was cut off; HS603: not a format of the target."""
    demand_one_run(path)
    if not path.is_file():
        raise HetesynthError(f"{path} is not a file", code="HS540", help="give a file that was written")
    kind = format_of(path)
    if target.format != kind:
        message = f"{path} is {kind.words}, which {target.name} does not read"
        raise HetesynthError(message, code="HS603", help=f"{target.name} reads {target.format.words}")


def _judge_xml(path: Path, question: Question) -> Judged:
    from hetesynth.judge.msccl.judge import large_message_violations, profile_violations, program_violations
    from hetesynth.judge.msccl.linter import call_warnings, lint_targets, network_violations
    from hetesynth.judge.msccl.reader import load_program

    read = load_program(path)
    cluster = question.cluster(path, None if read.program is None else read.program.ranks)
    links = _pairs(cluster)
    if question.targets:
        verdicts = lint_targets(read, question.targets, root=question.root, links=links, sms=question.sms)
        findings = _merged((v.target, v.violations) for v in verdicts)
        acceptance = tuple((v.target, v.acceptance) for v in verdicts)
    else:
        errors = program_violations(read, root=question.root, links=links, sms=question.sms)
        findings = [Finding("error", v) for v in errors]
        findings += [Finding("portability", v) for v in profile_violations(read)]
        acceptance = ()
    calls = _merged(((t.name, call_warnings(read, t)) for t in question.targets), "warning")
    warnings = [*(Finding("warning", v) for v in read.warnings), *calls]
    stops = ("deadlock", "race", "undefined-data", "wrong-data")  # at every size
    if not any(f.level == "error" and f.violation.kind in stops for f in findings):
        warnings += [Finding("warning", v) for v in large_message_violations(read, root=question.root)]
    if read.program is not None:  # over NICs, where the topology has servers between which the program sends
        hangs = network_violations(read.program, question.targets, None if cluster is None else cluster.servers)
        warnings += [Finding("note" if cluster is None else "warning", v) for v in hangs]
    return Judged((*findings, *warnings), acceptance, read.algo_line is not None)


def _merged(by_target: Iterable[tuple[str, Sequence[Violation]]], level: Level = "error") -> list[Finding]:
    """Return the findings of all targets, with equal violations merged into one finding."""
    targets_of: dict[Violation, list[str]] = {}
    for target, violations in by_target:
        for violation in violations:
            targets_of.setdefault(violation, []).append(target)
    return [Finding(level, violation, tuple(targets)) for violation, targets in targets_of.items()]


def _pairs(cluster: Topology | None) -> set[tuple[int, int]] | None:
    """Return (source, destination) of every link; None without a cluster."""
    return None if cluster is None else {(link.src, link.dst) for link in cluster.links}


def _judge_plan(path: Path, question: Question) -> Judged:
    from hetesynth.judge.mscclpp.judge import open_range_violations, plan_violations, plan_warnings
    from hetesynth.judge.mscclpp.reader import load_plan

    plan = load_plan(path, packets=True)
    cluster = question.cluster(path, len(plan.gpus))
    plans = [plan]
    if any(block.stored for gpu in plan.gpus for block in gpu.blocks):
        plans.append(load_plan(path, packets=True, turns=3))  # a pipeline, which must not rely on their number
    violations: list[Violation] = []
    for each in plans:
        wrong = plan_violations(
            each,
            root=question.root,
            links=_pairs(cluster),
            servers=None if cluster is None else cluster.servers,
            sms=question.sms or TARGETS["mscclpp"].multiprocessors,
        )
        violations += [violation for violation in wrong if violation not in violations]
    names = tuple(target.name for target in question.targets)
    large: Level = "error" if question.targets else "warning"
    calls = plan_warnings(plan, question.root) if names else []
    findings = [Finding("error", v, names) for v in violations]
    findings += [Finding(large, v, names) for v in open_range_violations(plan)]
    return Judged((*findings, *(Finding("warning", v, names) for v in calls)))


def _judge_table(path: Path, question: Question) -> Judged:
    from hetesynth.judge.tables.judge import table_violations
    from hetesynth.judge.tables.reader import load_table

    table = load_table(path)
    cluster = question.cluster(path, table.ranks)
    names = tuple(target.name for target in question.targets)
    violations = table_violations(table, links=_pairs(cluster), root=question.root)
    return Judged(tuple(Finding("error", v, names) for v in violations))


_JUDGES: dict[FileFormat, Callable[[Path, Question], Judged]] = {
    XML: _judge_xml,
    PLAN_JSON: _judge_plan,
    TABLE_JSON: _judge_table,
}


def sarif_of(files: Sequence[tuple[Path, Judged]]) -> dict[str, Any]:
    """Return findings as a SARIF log: errors, warnings (portability too) and notes, with their rules."""
    from hetesynth.judge.rules import BY_ID
    from hetesynth.report.sarif import sarif_log, sarif_result, sarif_rule

    results, rules = [], {}
    for path, judged in files:
        for finding in judged.findings:
            v = finding.violation
            name, rule = v.rule or v.kind, BY_ID.get(v.rule or "")
            title, advice = (name, "See docs/verify.md.") if rule is None else (rule.name, rule.help)
            rules[name] = sarif_rule(name, title, f"What is wrong is of the kind {v.kind}.", advice)
            parts = (("gpu", v.rank), ("thread block", v.thread_block), ("step", v.step))
            place = "/".join(f"{word} {number}" for word, number in parts if number is not None) or None
            more = {"targets": list(finding.targets)} if finding.targets else {}
            level = "warning" if finding.level == "portability" else finding.level
            results.append(sarif_result(name, level, v.message, str(path), v.line, place=place, properties=more))
    return sarif_log([rules[name] for name in sorted(rules)], results, __version__)
