"""Statuses, names, places and figures of cells as every report shows them; findings as forges take them."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import hetesynth
from hetesynth.deploy.outcome import BuildReport, CellReport, Status
from hetesynth.model.diagnostics import visible
from hetesynth.model.words import counted, size_text

STATUSES: tuple[Status, ...] = get_args(Status)
WAYS_OUT: dict[Status, str] = {
    "invalid": "build again, which replaces what is damaged or wrong",
    "missing": "build, and commit what is written",
    "failed": "the message says why; what stood there before still stands",
    "withheld": "raise the effort, choose another strategy, or lower the gate in the manifest",
    "stale": "build, and commit what is written",
    "unfinished": "start the build again: it goes on where it was",
    "kept": "nothing has to be done: the older one is better and verifies (--accept-worse deploys the newer)",
}
ATTENTION: tuple[Status, ...] = tuple(WAYS_OUT)  # what somebody should look at, the worst first
WHOLE_BUILD = "build"  # under which name a report says what stopped all of it
SHOWN_PERCENT = 0.05  # changes below this many percent are shown as none: one decimal is
_UNDECIDED: frozenset[Status] = frozenset({"stale", "missing", "invalid", "unfinished"})


def one_line(text: str) -> str:
    """``text`` with every control character shown escaped and every stretch of white space as one space."""
    return " ".join(visible(text).split())


def counts(report: BuildReport) -> dict[Status, int]:
    """How many cells have each status that occurs, in the order in which statuses are always told."""
    number = Counter(cell.status for cell in report.cells)
    return {status: number[status] for status in STATUSES if number[status]}


def counts_text(report: BuildReport) -> str:
    """``24 cells: 20 current, 3 built, 1 failed``."""
    cells = counted(len(report.cells), "cell")
    return f"{cells}: {', '.join(f'{n} {status}' for status, n in counts(report).items())}".removesuffix(": ")


def needing_attention(report: BuildReport) -> list[CellReport]:
    """The worst first, else in the order of the manifest."""
    order = {status: k for k, status in enumerate(ATTENTION)}
    return sorted((cell for cell in report.cells if cell.status in order), key=lambda cell: order[cell.status])


def verdict(report: BuildReport) -> str:
    """All of it in a few words."""
    if report.interrupted:
        return "interrupted"
    return "every schedule is as it should be" if report.ok else "something has to be done"


def messages_text(report: CellReport) -> str:
    """Why the status is what it is, on one line."""
    return "; ".join(one_line(message) for message in report.messages)


def said(report: CellReport) -> str:
    """The status with its reason: ``stale: made for another topology``."""
    messages = messages_text(report)
    return f"{report.status}: {messages}" if messages else report.status


def cell_name(report: CellReport) -> str:
    """The name of the cell without its cluster and target: ``allreduce/1MB..64MB``."""
    return f"{report.cell.collective}/{report.cell.extent_text}"


def groups(report: BuildReport) -> dict[tuple[str, str], list[CellReport]]:
    """The cells of each cluster and target, in the order of the manifest."""
    grouped: dict[tuple[str, str], list[CellReport]] = {}
    for cell in report.cells:
        grouped.setdefault((cell.cell.cluster, cell.cell.target), []).append(cell)
    return grouped


@dataclass(frozen=True, slots=True)
class Places:
    """``manifest``: as reports name it. ``lines``: of each cluster in it."""

    root: Path
    manifest: str
    lines: Mapping[str, int] = field(default_factory=dict)

    def shown(self, path: str | Path) -> str:
        """``path`` from the root with ``/``, without ``./``; as it is where it lies elsewhere."""
        below = os.path.relpath(os.path.abspath(path), os.path.abspath(self.root))
        outside = below == os.pardir or below.startswith(os.pardir + os.sep)
        return (str(path) if outside else below).replace(os.sep, "/")

    def line(self, cluster: str) -> int:
        """The line of the manifest where ``cluster`` is stated; the first where that is not known."""
        return self.lines.get(cluster, 1)


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one program at one size of the buffer, in bytes; microseconds. None: not known."""

    size: int
    program_us: float | None
    limit_us: float | None
    percent_of_limit: float | None
    factor_over_library: float | None
    steps: int | None
    proven_optimal: bool


@dataclass(frozen=True, slots=True)
class Shown:
    """The same as texts; empty where there is nothing to say."""

    size: str = ""
    time: str = ""
    percent: str = ""
    factor: str = ""
    change: str = ""


def figures(record: Mapping[str, Any] | None) -> Figures | None:
    """What ``record`` says at the middle one of its sizes; None where it says nothing of use."""
    rows: list[dict[str, Any]] = record["sizes"] if record is not None else []
    sized = [row for row in rows if row.get("program_us")] or rows
    if record is None or not sized:
        return None
    row = sized[len(sized) // 2]
    names = "program_us", "limit_us", "percent_of_limit", "factor_over_library"
    us, limit, percent, factor = (row.get(name) or None for name in names)
    proven = record.get("proven_optimal") is True
    return Figures(row["size"], us, limit, percent, factor, record.get("steps"), proven)


def change_percent(report: CellReport) -> float | None:
    """By how much the program's time differs from that of the last run; None: one of the two is not known, or
    nothing was decided in this run."""
    if report.status in _UNDECIDED:
        return None
    return _difference(figures(report.record), figures(report.previous))


def candidate_percent(report: CellReport) -> float | None:
    """By how much what was made and not deployed differs from what stands; None: nothing else was made."""
    if report.candidate == report.record:
        return None
    return _difference(figures(report.candidate), figures(report.record))


def _difference(now: Figures | None, before: Figures | None) -> float | None:
    if now is None or before is None or now.size != before.size:
        return None
    if now.program_us is None or before.program_us is None:
        return None
    percent = 100.0 * (now.program_us / before.program_us - 1.0)
    return percent if math.isfinite(percent) else None


def percent_text(percent: float) -> str:
    """``-3.1 %``, ``same``."""
    return "same" if abs(percent) < SHOWN_PERCENT else f"{percent:+.1f} %"


def change_text(report: CellReport) -> str:
    """Against the last run: ``-3.1 %``, ``same``, ``new``; empty where nothing stands."""
    percent = change_percent(report)
    if percent is not None:
        return percent_text(percent)
    is_new = report.status in ("built", "cached") and report.record is not None and report.previous is None
    return "new" if is_new else ""


def shown(report: CellReport) -> Shown:
    """The figures of what stands, as texts."""
    at = figures(report.record)
    if at is None:
        return Shown(change=change_text(report))
    us = at.program_us
    return Shown(
        size_text(at.size),
        "" if us is None else f"{us:,.0f} us" if us >= 1_000 else f"{us:.4g} us",
        "" if at.percent_of_limit is None else f"{math.floor(at.percent_of_limit * 10 + 1e-6) / 10:.1f} %",
        "" if at.factor_over_library is None else f"{at.factor_over_library:.2f}",
        change_text(report),
    )


def properties(report: CellReport) -> dict[str, str]:
    """Every figure that is known, by its name: for tools that keep pairs of names and values."""
    at = figures(report.record)
    if at is None:
        return {}
    names = "size", "program_us", "limit_us", "percent_of_limit", "factor_over_library", "steps"
    values = {name: getattr(at, name) for name in names} | {"change_percent": change_percent(report)}
    return {
        name: str(value) if isinstance(value, int) else f"{value:.6g}"
        for name, value in values.items()
        if value is not None
    }


def explained(cell: CellReport) -> str:
    """Why a cell needs attention, and the way out."""
    return "; ".join(part for part in (reason(cell), WAYS_OUT[cell.status]) if part)


def reason(cell: CellReport) -> str:
    """Its messages, and how what was made and not deployed compares with what stands."""
    percent = candidate_percent(cell)
    candidate = "" if percent is None else f"the new one: {percent_text(percent)}"
    return "; ".join(part for part in (messages_text(cell), candidate) if part)


Severity = Literal["error", "warning", "note"]
FOLDER_RULE = "stale-folder"
MAX_OF_A_SEVERITY = 10  # that GitHub shows of one step
MAX_MESSAGE = 4_000
_COMMANDS: dict[Severity, str] = {"error": "error", "warning": "warning", "note": "notice"}  # of GitHub
_SEVERITIES: dict[Severity, str] = {"error": "major", "warning": "minor", "note": "info"}  # of GitLab


@dataclass(frozen=True, slots=True)
class Annotation:
    """``rule``: ``HS241`` of a finding, ``stale-schedule`` of a cell. ``subject``: what tells it from others of
    the same rule in the same file, whatever the line. Message and title are one line each."""

    severity: Severity
    rule: str
    path: str
    line: int
    title: str
    message: str
    subject: str
    column: int | None = None


def all_annotations(report: BuildReport, places: Places) -> tuple[Annotation, ...]:
    """Every topology finding and every cell that needs attention; errors first."""
    notes: list[Annotation] = []
    severity: Severity
    for cell in needing_attention(report):
        severity = "error" if cell.bad else "warning"
        title = one_line(f"{cell.cell.name}: {cell.status}")
        message = one_line(f"{cell.cell.name}: {cell.status}: {explained(cell)}")
        line, rule = places.line(cell.cell.cluster), rule_of(cell.status)
        notes.append(Annotation(severity, rule, places.manifest, line, title, message, cell.cell.name))
    for folder in report.folders:
        name = one_line(places.shown(folder.folder))
        severity = "error" if folder.stale else "note"
        message = one_line(f"{name}: {folder.message}")
        notes.append(Annotation(severity, FOLDER_RULE, places.manifest, 1, f"{name}: folder", message, message))
    for finding in report.findings:
        title = one_line(f"{finding.code}: {finding.message}")
        message = one_line(f"{finding.message}; {finding.help}" if finding.help else finding.message)
        path, line, column = places.shown(finding.file), max(1, finding.line), max(1, finding.column)
        subject = one_line(finding.message)
        notes.append(Annotation(finding.severity, finding.code, path, line, title, message, subject, column))
    for warning in report.warnings:
        text = one_line(warning)
        notes.append(Annotation("warning", "build-warning", places.manifest, 1, "hetesynth build", text, text))
    return tuple(sorted(notes, key=lambda one: [*_COMMANDS].index(one.severity)))


def rule_of(status: Status) -> str:
    """The name of the rule that a cell of ``status`` breaks."""
    return f"{status}-schedule"


def fingerprints(all_: Iterable[Annotation]) -> list[str]:
    """A name for each that is the same in every run: lines do not count, so an edit above changes none."""
    seen: Counter[tuple[str, str, str]] = Counter()
    names = []
    for annotation in all_:
        identity = (annotation.rule, annotation.path, annotation.subject)
        seen[identity] += 1
        text = "\0".join((*identity, str(seen[identity])))
        names.append(hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest())
    return names


def workflow_commands(all_: Sequence[Annotation]) -> list[str]:
    """A command for each annotation; of more than GitHub shows, the last says how many there are."""
    lines = []
    for severity, command in _COMMANDS.items():
        of_it = [annotation for annotation in all_ if annotation.severity == severity]
        shown = of_it if len(of_it) <= MAX_OF_A_SEVERITY else of_it[: MAX_OF_A_SEVERITY - 1]
        for annotation in shown:
            place = {"file": annotation.path, "line": str(annotation.line)}
            if annotation.column is not None:
                place["col"] = str(annotation.column)
            place["title"] = annotation.title
            # a value must not end its property: the runner's own escapes
            values = {name: _data(text).replace(":", "%3A").replace(",", "%2C") for name, text in place.items()}
            properties = ",".join(f"{name}={value}" for name, value in values.items())
            lines.append(f"::{command} {properties}::{_data(annotation.message)}")
        if len(shown) < len(of_it):
            more = len(of_it) - len(shown)
            lines.append(f"::{command} title={more} more::{_data('the summary and the JSON report list all')}")
    return lines


def _data(text: str) -> str:
    cut = text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]}..."
    return visible(cut.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def code_quality(all_: Sequence[Annotation]) -> bytes:
    """A list of issues in JSON; it is empty where there is nothing to say, which GitLab takes as such."""
    issues = [
        {
            "description": annotation.message,
            "check_name": annotation.rule,
            "fingerprint": fingerprint,
            "severity": _SEVERITIES[annotation.severity],
            "location": {"path": annotation.path, "lines": {"begin": annotation.line}},
        }
        for annotation, fingerprint in zip(all_, fingerprints(all_), strict=True)
    ]
    return (json.dumps(issues, indent=1) + "\n").encode()


def sarif_annotations(all_: Sequence[Annotation]) -> bytes:
    """SARIF 2.1.0 of one run, for forges refuse several of one tool in a file."""
    from hetesynth.report.sarif import SarifResult, SarifRule, sarif_log
    from hetesynth.topology.lint import RULES

    ours = {rule.code: SarifRule(rule.code, rule.name, rule.summary, "see docs/lint.md") for rule in RULES}
    for status in ATTENTION:
        name = rule_of(status)
        ours[name] = SarifRule(name, name, f"a schedule of the manifest is {status}", WAYS_OUT[status])
    summary = "a folder is not what a build would write"
    ours[FOLDER_RULE] = SarifRule(FOLDER_RULE, FOLDER_RULE, summary, "build again")
    broken = dict.fromkeys(annotation.rule for annotation in all_)
    elsewhere = "see docs/errors.md"
    rules = [ours.get(code) or SarifRule(code, code, elsewhere, elsewhere) for code in broken]
    results: list[dict[str, Any]] = []
    for annotation, fingerprint in zip(all_, fingerprints(all_), strict=True):
        path = annotation.path
        try:
            path.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:  # no file can be called that
            path = visible(path)
        columns = None if annotation.column is None else (annotation.column, annotation.column + 1)
        result = SarifResult(
            annotation.rule, annotation.severity, annotation.message, annotation.line, columns=columns
        )
        (written,) = sarif_log(path, rules, [result], hetesynth.__version__)["runs"][0]["results"]
        results.append({**written, "partialFingerprints": {"hetesynthFinding/v1": fingerprint}})
    log = sarif_log("", rules, [], hetesynth.__version__)
    log["runs"][0]["results"] = results
    return (json.dumps(log, indent=1) + "\n").encode()
