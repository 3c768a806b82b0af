"""What a build came to as findings with a place each: what forges show beside the lines of a file.

In: a ``BuildReport``, places. Out: ``Annotation``s, the worst first, whatever the forge.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from hetesynth.deploy.outcome import BuildReport, CellReport, Status
from hetesynth.deploy.reports.figures import candidate_percent, percent_text
from hetesynth.deploy.reports.places import Places
from hetesynth.deploy.reports.words import WAYS_OUT, is_bad, messages_text, needing_attention, one_line

Severity = Literal["error", "warning", "note"]
FOLDER_RULE = "stale-folder"
_ORDER: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}


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
    all_ = [
        *_of_cells(report, places),
        *_of_folders(report, places),
        *_of_findings(report, places),
        *_of_warnings(report, places),
    ]
    return tuple(sorted(all_, key=lambda annotation: _ORDER[annotation.severity]))


def rule_of(status: Status) -> str:
    """The name of the rule that a cell of ``status`` breaks."""
    return f"{status}-schedule"


def _of_cells(report: BuildReport, places: Places) -> Iterable[Annotation]:
    for cell in needing_attention(report):
        yield Annotation(
            "error" if is_bad(cell) else "warning",
            rule_of(cell.status),
            places.manifest,
            places.line(cell.cell.cluster),
            one_line(f"{cell.cell.name}: {cell.status}"),
            one_line(f"{cell.cell.name}: {cell.status}: {explained(cell)}"),
            cell.cell.name,
        )


def explained(cell: CellReport) -> str:
    """Why a cell needs attention, and the way out."""
    return "; ".join(part for part in (reason(cell), WAYS_OUT[cell.status]) if part)


def reason(cell: CellReport) -> str:
    """Its messages, and how what was made and not deployed compares with what stands."""
    percent = candidate_percent(cell)
    candidate = "" if percent is None else f"the new one: {percent_text(percent)}"
    return "; ".join(part for part in (messages_text(cell), candidate) if part)


def _of_findings(report: BuildReport, places: Places) -> Iterable[Annotation]:
    for finding in report.findings:
        message = f"{finding.message}; {finding.help}" if finding.help else finding.message
        yield Annotation(
            finding.severity,
            finding.code,
            places.shown(finding.file),
            max(1, finding.line),
            one_line(f"{finding.code}: {finding.message}"),
            one_line(message),
            one_line(finding.message),
            max(1, finding.column),
        )


def _of_folders(report: BuildReport, places: Places) -> Iterable[Annotation]:
    for finding in report.folders:
        folder = one_line(places.shown(finding.folder))
        severity: Severity = "error" if finding.stale else "note"
        message = one_line(f"{folder}: {finding.message}")
        yield Annotation(severity, FOLDER_RULE, places.manifest, 1, f"{folder}: folder", message, message)


def _of_warnings(report: BuildReport, places: Places) -> Iterable[Annotation]:
    for warning in report.warnings:
        text = one_line(warning)
        yield Annotation("warning", "build-warning", places.manifest, 1, "hetesynth build", text, text)


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
