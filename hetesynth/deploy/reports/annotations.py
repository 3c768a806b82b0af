"""What a build came to as findings with a place each, and the forms in which forges take them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import hetesynth
from hetesynth.deploy.outcome import BuildReport, Status
from hetesynth.deploy.reports.words import (
    ATTENTION,
    WAYS_OUT,
    Places,
    explained,
    needing_attention,
    one_line,
)
from hetesynth.model.diagnostics import visible

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
