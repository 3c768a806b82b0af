"""Statuses, names, places and figures of cells as every report shows them; findings as forges take them."""

import hashlib
import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import hetesynth
from hetesynth.deploy.outcome import BuildReport, CellReport, Status
from hetesynth.model.diagnostics import Span, visible
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
_UNDECIDED: frozenset[Status] = frozenset({"stale", "missing", "invalid", "unfinished"})
_NO_CHARACTER = re.compile("[\ufffe\uffff]")  # of XML; the others are shown escaped anyway


def one_line(text: str) -> str:
    """``text`` with every control character shown escaped and every stretch of white space as one space."""
    return " ".join(visible(text).split())


def markup(text: str) -> str:
    """``text`` on one line, of characters that XML has; whoever writes it escapes it."""
    return _NO_CHARACTER.sub("?", one_line(text))


def counts(report: BuildReport) -> dict[Status, int]:
    """Return the number of cells with each status that occurs, in the order of ``STATUSES``."""
    number = Counter(cell.status for cell in report.cells)
    return {status: number[status] for status in STATUSES if number[status]}


def counts_text(report: BuildReport) -> str:
    """``24 cells: 20 current, 3 built, 1 failed``."""
    cells = counted(len(report.cells), "cell")
    return f"{cells}: {', '.join(f'{n} {status}' for status, n in counts(report).items())}".removesuffix(": ")


def needing_attention(report: BuildReport) -> list[CellReport]:
    """Return the cells that need attention, the worst first, else in the order of the manifest."""
    return [cell for status in ATTENTION for cell in report.cells if cell.status == status]


def heading(report: BuildReport) -> str:
    """Return the outcome of the whole build in a few words."""
    what = "Schedules checked" if report.checked else "Schedules built"
    if report.interrupted:
        return f"{what}: interrupted"
    return f"{what}: {'every schedule is as it should be' if report.ok else 'something has to be done'}"


def reason(report: CellReport) -> str:
    """Return why the status of a cell is what it is, on one line."""
    return "; ".join(one_line(message) for message in report.messages)


def explained(cell: CellReport) -> str:
    """Return why a cell needs attention, and the way out."""
    return "; ".join(part for part in (reason(cell), WAYS_OUT[cell.status]) if part)


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
    """Paths seen from ``root``. ``manifest``: its path in reports; ``lines``: the line of each cluster in it."""

    root: Path
    manifest: str
    lines: Mapping[str, int] = field(default_factory=dict)

    def shown(self, path: str | Path) -> str:
        """Return ``path`` from the root with ``/``, without ``./``; as it is where it lies elsewhere."""
        below = os.path.relpath(os.path.abspath(path), os.path.abspath(self.root))
        return str(path) if below.split(os.sep)[0] == os.pardir else below

    def spot(self, span: Span) -> str:
        """``clusters/prod.dsl:3:14``."""
        return f"{self.shown(span.file)}:{span.line}:{span.column}"

    def line(self, cluster: str) -> int:
        """The line of the manifest where ``cluster`` is stated; the first where that is not known."""
        return self.lines.get(cluster, 1)


def figures(record: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the figures of ``record`` at the middle one of its sizes; None where there are none."""
    rows: list[dict[str, Any]] = record["sizes"] if record is not None else []
    sized = [row for row in rows if row.get("program_us")] or rows
    if record is None or not sized:
        return None
    row = sized[len(sized) // 2]
    names = "program_us", "limit_us", "percent_of_limit", "factor_over_library"
    proven = record.get("proven_optimal") is True
    times = {name: row.get(name) or None for name in names}
    return {"size": row["size"], **times, "steps": record.get("steps"), "proven_optimal": proven}


def change_percent(report: CellReport) -> float | None:
    """Return by how many percent the program's time differs from that of the last run; None: one of the two is not
    known, or nothing was decided in this run."""
    now, before = figures(report.record), figures(report.previous)
    if report.status in _UNDECIDED or now is None or before is None or now["size"] != before["size"]:
        return None
    if now["program_us"] is None or before["program_us"] is None:
        return None
    percent = 100.0 * (now["program_us"] / before["program_us"] - 1.0)
    return percent if math.isfinite(percent) else None


def change_text(report: CellReport) -> str:
    """Return the change since the last run: ``-3.1 %``, ``same``, ``new``; empty where it is not known."""
    percent = change_percent(report)
    if percent is not None:
        return "same" if abs(percent) < 0.05 else f"{percent:+.1f} %"
    is_new = report.status in ("built", "cached") and report.record is not None and report.previous is None
    return "new" if is_new else ""


FIGURES = ("program", "size", "of the limit", "x library", "last run")


def shown(report: CellReport) -> tuple[str, ...]:
    """Return the ``FIGURES`` of the cell in the folder as texts; empty where there is nothing to say."""
    at = figures(report.record)
    if at is None:
        return ("", "", "", "", change_text(report))
    us, percent, factor = at["program_us"], at["percent_of_limit"], at["factor_over_library"]
    return (
        "" if us is None else f"{us:,.0f} us" if us >= 1_000 else f"{us:.4g} us",
        size_text(at["size"]),
        "" if percent is None else f"{math.floor(percent * 10 + 1e-6) / 10:.1f} %",
        "" if factor is None else f"{factor:.2f}",
        change_text(report),
    )


@dataclass(frozen=True, slots=True)
class Section:
    """A table of a report. ``keys``: the whole names of the cells in its rows; empty where rows are not cells."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]
    keys: tuple[str, ...] = ()


def sections(report: BuildReport, at: Places) -> list[Section]:
    """Return the tables of ``report`` that have rows, the most urgent first."""
    urgent = [(cell.cell.name, cell.status, explained(cell)) for cell in needing_attention(report)]
    folders = [(at.shown(f.folder), "stale" if f.stale else "note", f.message) for f in report.folders]
    findings = [(at.spot(f.span), f"{f.severity} {f.code}", f.message) for f in report.findings]
    tables = [
        Section("Needs attention", ("cell", "status", "why, and what to do"), [*urgent]),
        Section("Folders", ("folder", "status", "what"), [*folders]),
        Section("Topology files", ("place", "finding", "what"), [*findings]),
    ]
    for (cluster, target), cells in groups(report).items():
        rows = [(cell_name(cell), cell.status, *shown(cell)) for cell in cells]
        keys = tuple(cell.cell.name for cell in cells)
        tables.append(Section(f"{cluster}, {target}", ("cell", "status", *FIGURES), [*rows], keys))
    return [table for table in tables if table.rows]


Severity = Literal["error", "warning", "note"]
_FORGES: dict[Severity, tuple[str, str]] = {  # what GitHub and what GitLab call it
    "error": ("error", "major"),
    "warning": ("warning", "minor"),
    "note": ("notice", "info"),
}


@dataclass(frozen=True, slots=True)
class Annotation:
    """A finding for a forge. ``rule``: ``HS241`` of a topology, ``stale-schedule`` of a cell. ``subject``: sets it
    apart from others of its rule and file, whatever the line. Message and title are one line each."""

    severity: Severity
    rule: str
    path: str
    line: int
    title: str
    message: str
    subject: str
    column: int | None = None


def all_annotations(report: BuildReport, places: Places) -> tuple[Annotation, ...]:
    """Return notes on topology findings, cells that need attention, folders and warnings; errors first."""
    notes: list[Annotation] = []
    severity: Severity
    for cell in needing_attention(report):
        severity = "error" if cell.bad else "warning"
        title = one_line(f"{cell.cell.name}: {cell.status}")
        message = one_line(f"{title}: {explained(cell)}")
        line, rule = places.line(cell.cell.cluster), f"{cell.status}-schedule"
        notes.append(Annotation(severity, rule, places.manifest, line, title, message, cell.cell.name))
    for folder in report.folders:
        name = one_line(places.shown(folder.folder))
        severity = "error" if folder.stale else "note"
        message = one_line(f"{name}: {folder.message}")
        notes.append(Annotation(severity, "stale-folder", places.manifest, 1, f"{name}: folder", message, message))
    for finding in report.findings:
        title = one_line(f"{finding.code}: {finding.message}")
        message = one_line(f"{finding.message}; {finding.help}" if finding.help else finding.message)
        path, line, column = places.shown(finding.span.file), finding.span.line, finding.span.column
        subject = one_line(finding.message)
        notes.append(Annotation(finding.severity, finding.code, path, line, title, message, subject, column))
    for warning in report.warnings:
        text = one_line(warning)
        notes.append(Annotation("warning", "build-warning", places.manifest, 1, "hetesynth build", text, text))
    return tuple(sorted(notes, key=lambda one: [*_FORGES].index(one.severity)))


def fingerprints(all_: Iterable[Annotation]) -> list[str]:
    """Return a name for each annotation that is the same in every run: edits above its line do not change it."""
    seen: Counter[tuple[str, str, str]] = Counter()
    names = []
    for annotation in all_:
        identity = (annotation.rule, annotation.path, annotation.subject)
        seen[identity] += 1
        text = "\0".join((*identity, str(seen[identity])))
        names.append(hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest())
    return names


def workflow_commands(all_: Sequence[Annotation]) -> list[str]:
    """Return GitHub's command for each annotation."""
    lines = []
    for annotation in all_:
        place = {"file": annotation.path, "line": str(annotation.line)}
        if annotation.column is not None:
            place["col"] = str(annotation.column)
        place["title"] = annotation.title
        # a value must not end its property: the runner's own escapes
        values = {name: _data(text).replace(":", "%3A").replace(",", "%2C") for name, text in place.items()}
        properties = ",".join(f"{name}={value}" for name, value in values.items())
        lines.append(f"::{_FORGES[annotation.severity][0]} {properties}::{_data(annotation.message)}")
    return lines


def _data(text: str) -> str:
    return visible(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def code_quality(all_: Sequence[Annotation]) -> bytes:
    """Return GitLab's list of issues in JSON; GitLab takes an empty list as nothing to say."""
    issues = [
        {
            "description": annotation.message,
            "check_name": annotation.rule,
            "fingerprint": fingerprint,
            "severity": _FORGES[annotation.severity][1],
            "location": {"path": annotation.path, "lines": {"begin": annotation.line}},
        }
        for annotation, fingerprint in zip(all_, fingerprints(all_), strict=True)
    ]
    return (json.dumps(issues, indent=1) + "\n").encode()


def sarif_annotations(all_: Sequence[Annotation]) -> bytes:
    """Return SARIF 2.1.0 with one run, for forges refuse several of one tool in a file."""
    from hetesynth.report.sarif import sarif_log, sarif_result, sarif_rule

    help_ = "see docs/lint.md, docs/errors.md and docs/build_reports.md"
    rules = [sarif_rule(rule, rule, rule, help_) for rule in dict.fromkeys(one.rule for one in all_)]
    results = []
    for one in all_:
        columns = () if one.column is None else (one.column, one.column + 1)
        place = (visible(one.path), one.line)
        results.append(sarif_result(one.rule, one.severity, one.message, *place, columns=columns))
    log = sarif_log(rules, results, hetesynth.__version__)
    for result, fingerprint in zip(log["runs"][0]["results"], fingerprints(all_), strict=True):
        result["partialFingerprints"] = {"hetesynthFinding/v1": fingerprint}
    return (json.dumps(log, indent=1) + "\n").encode()
