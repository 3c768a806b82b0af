"""The reports of a build that are asked for, written; what goes to standard output is handed back.

In: a ``BuildReport``, options, the manifest where it could be read. Out: files, and lines for the caller to print.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from hetesynth.deploy.manifest.values import Manifest
from hetesynth.deploy.outcome import BuildReport, TopologyFinding
from hetesynth.deploy.reports.annotations import (
    all_annotations,
    code_quality,
    sarif_annotations,
    workflow_commands,
)
from hetesynth.deploy.reports.pages import INDEX_MARK, INDEX_PAGE, write_pages
from hetesynth.deploy.reports.summaries import MARK, MAX_BYTES, junit_xml, markdown_summary
from hetesynth.deploy.reports.words import STATUSES, Places, change_percent, counts, figures
from hetesynth.deploy.topology_files import lint_files
from hetesynth.engine.places import demand_place
from hetesynth.errors import HetesynthError
from hetesynth.files.atomic import write_atomically
from hetesynth.files.regular_files import open_regular
from hetesynth.model.diagnostics import Diagnostic, SourceError
from hetesynth.policy import DEFAULT, Policy

FORMAT = 1  # raised where a field changes its meaning or goes; a new field raises nothing
STANDARD_OUTPUT = Path("-")
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
_START = 256  # bytes in which a mark is
_JUNIT = rb'<testsuites name="hetesynth build"'
_GITLAB = rb'\A\[(\]|\s+\{\s+"description": )'
_SARIF = rb'\A\{\s+"\$schema": "[^"]*sarif'
_FORGES = "give github, gitlab=FILE or sarif=FILE"


def topology_findings(manifest: Manifest, policy: Policy = DEFAULT) -> tuple[TopologyFinding, ...]:
    """The findings about each topology file, each file once, in the order of the manifest."""
    findings: list[TopologyFinding] = []
    for file in lint_files([entry.topology for entry in manifest.clusters], policy.compile):
        if file.error is None:
            findings += map(_finding, file.findings)
        else:
            findings += failure_findings(file.error, file.path)
    return tuple(dict.fromkeys(findings))  # two clusters may import one file


def failure_findings(error: HetesynthError, file: str | Path) -> tuple[TopologyFinding, ...]:
    """What ``error`` says; where it does not point into a file that is there it is about all of ``file``."""
    if not isinstance(error, SourceError):
        return (TopologyFinding(str(file), 1, 1, "error", error.code, error.message, error.help),)
    findings = map(_finding, error.diagnostics)
    there = (f if Path(f.file).is_file() else replace(f, file=str(file), line=1, column=1) for f in findings)
    return tuple(dict.fromkeys(there))


def _finding(said: Diagnostic) -> TopologyFinding:
    span = said.span
    return TopologyFinding(span.file, span.line, span.column, said.severity, said.code, said.message, said.help)


def document(report: BuildReport, places: Places) -> dict[str, Any]:
    """All of ``report``."""
    cells = []
    for told in report.cells:
        cell, at = told.cell, figures(told.record)
        cells.append(
            {
                "name": cell.name,
                "cluster": cell.cluster,
                "target": cell.target,
                "collective": cell.collective,
                "extent": cell.extent_text,
                "status": told.status,
                "messages": list(told.messages),
                "line": places.line(cell.cluster),
                "key": told.key,
                "figures": None if at is None else asdict(at),
                "change_percent": change_percent(told),
                "files": [*told.files],
                "record": told.record,
                "previous": told.previous,
                "candidate": told.candidate,
            }
        )
    plain: dict[str, Any] = {
        "kind": "hetesynth build report",
        "format": FORMAT,
        "ok": report.ok,
        "checked": report.checked,
        "interrupted": report.interrupted,
        "manifest": places.manifest,
        "output": places.shown(report.output),
        "seconds": round(report.seconds, 3),
        "counts": {**dict.fromkeys(STATUSES, 0), **counts(report), "all": len(report.cells)},
        "warnings": list(report.warnings),
        "written": [places.shown(path) for path in report.written],
        "cells": cells,
        "folders": [{**asdict(finding), "folder": places.shown(finding.folder)} for finding in report.folders],
        "findings": [{**asdict(finding), "file": places.shown(finding.file)} for finding in report.findings],
    }
    return {name: _finite(value) for name, value in plain.items()}


def _finite(value: Any) -> Any:
    """For JSON, which has no infinity and no NaN."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """``github``: workflow commands; the others are files, None: not asked for. ``markdown``: ``-`` is standard
    output. ``appended``: the file that a summary is added to, never replaced. ``pages``: a folder. ``jobs``:
    processes that make pages."""

    json: bool = False
    junit: Path | None = None
    github: bool = False
    gitlab: Path | None = None
    sarif: Path | None = None
    markdown: Path | None = None
    pages: Path | None = None
    appended: Path | None = None
    jobs: int = 1

    @property
    def any(self) -> bool:
        """True where anything is asked for."""
        return self.json or self.github or any((*self.files, self.markdown, self.pages))

    @property
    def shows_findings(self) -> bool:
        """True where a report has topology findings."""
        return self.json or self.github or any((self.gitlab, self.sarif, self.markdown, self.pages))

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that are written whole."""
        markdown = None if self.markdown in (STANDARD_OUTPUT, self.appended) else self.markdown
        return tuple(path for path in (self.junit, self.gitlab, self.sarif, markdown) if path is not None)

    @property
    def talks(self) -> bool:
        """True where standard output is a report, so that no other text belongs there."""
        return self.json or self.markdown == STANDARD_OUTPUT


def report_options(
    *, as_json: bool = False, junit: Path | None = None, annotations: Sequence[str] = (),
    markdown: Path | None = None, pages: Path | None = None, jobs: int = 1,
) -> ReportOptions:  # fmt: skip
    """What the options of ``build`` ask for. Raises HetesynthError where they are wrong or cannot be met."""
    places: dict[str, Path] = {}
    github = False
    for stated in annotations:
        forge, _, file = stated.partition("=")
        if stated == "github":
            github = True
        elif forge in ("gitlab", "sarif") and file and forge not in places:
            places[forge] = Path(file)
        else:
            wrong = "it is given twice" if file else "it needs a file"
            if forge == "github":
                wrong = "its lines go to standard output"
            elif forge not in ("gitlab", "sarif"):
                wrong = "there is no such forge"
            raise HetesynthError(f"--annotations {stated!r}: {wrong}", code="HS856", help=_FORGES)
    summary = os.environ.get(STEP_SUMMARY)
    is_summary = summary and markdown is not None and os.path.realpath(markdown) == os.path.realpath(summary)
    appended = markdown if is_summary else None
    options = ReportOptions(
        as_json, junit, github, places.get("gitlab"), places.get("sarif"), markdown, pages, appended, jobs
    )
    _check(options)
    return options


def demand_outside(options: ReportOptions, folders: Iterable[Path]) -> None:
    """HetesynthError HS857 where a report would be in one of ``folders``, which are exchanged as a whole."""
    places = [os.path.realpath(folder) for folder in folders]
    for path in (*options.files, options.pages):
        if path is not None and any(Path(os.path.realpath(path)).is_relative_to(place) for place in places):
            help_ = "name a place beside the output"
            raise HetesynthError(f"{path} would be in a folder that is deployed", code="HS857", help=help_)


def _check(options: ReportOptions) -> None:
    if options.json and options.markdown == STANDARD_OUTPUT:
        help_ = "give one of them a file"
        raise HetesynthError("--json and --markdown - both write to standard output", code="HS856", help=help_)
    if STANDARD_OUTPUT in options.files:
        raise HetesynthError("only --markdown writes to standard output", code="HS856", help="name a file")
    names = [os.path.realpath(path) for path in (*options.files, options.pages) if path is not None]
    if len(names) != len(set(names)):
        raise HetesynthError("two reports have the same name", code="HS570", help="give them two names")
    markdown = options.markdown if options.markdown in options.files else None
    beginnings = (
        (options.junit, _JUNIT), (options.gitlab, _GITLAB), (options.sarif, _SARIF),
        (markdown, re.escape(MARK.encode())),
    )  # fmt: skip
    for path, beginning in beginnings:
        if path is not None:
            demand_place(path)
            _demand_ours(path, beginning)
    if options.pages is not None:
        _demand_ours(options.pages / INDEX_PAGE, re.escape(INDEX_MARK.encode()))


def _demand_ours(path: Path, beginning: bytes) -> None:
    """What a build wrote may be replaced; a manifest, a schedule or a page that somebody else wrote may not."""
    try:
        with open_regular(path) as file:
            start = file.read(_START)
    except FileNotFoundError:
        return
    except OSError as error:
        help_ = "give another name"
        raise HetesynthError(f"cannot read {path}: {error.strerror}", code="HS857", help=help_) from error
    if start and not re.search(beginning, start):
        help_ = "give another name"
        raise HetesynthError(f"{path} is not of a build and would be replaced", code="HS857", help=help_)


@dataclass(frozen=True, slots=True)
class Printed:
    """``output``: a report for standard output. ``commands``: lines that a forge reads, wherever they stand.
    ``written``: files and folders."""

    output: str = ""
    commands: tuple[str, ...] = ()
    written: tuple[Path, ...] = ()


def write_reports(report: BuildReport, options: ReportOptions, manifest: Manifest | None = None) -> Printed:
    """Write what ``options`` ask for. ``manifest``: None where it is wrong; there are no pages then."""
    at = report_places(report.manifest, manifest)
    files: dict[Path, bytes] = {}
    if options.junit is not None:
        files[options.junit] = junit_xml(report, at)
    if options.gitlab is not None:
        files[options.gitlab] = code_quality(all_annotations(report, at))
    if options.sarif is not None:
        files[options.sarif] = sarif_annotations(all_annotations(report, at))
    if options.markdown is not None and options.markdown in options.files:
        files[options.markdown] = markdown_summary(report, at).encode()
    for path, data in files.items():
        write_atomically(path, data)
    written = list(files)
    if options.appended is not None:
        path = options.appended
        try:  # other commands of the step wrote there; the forge takes so much
            room = MAX_BYTES - (path.stat().st_size if path.exists() else 0)
            with path.open("ab") as file:
                file.write(markdown_summary(report, at, max(0, room)).encode())
        except OSError as error:
            help_ = "give a file that can be written"
            raise HetesynthError(f"cannot write {path}: {error.strerror}", code="HS857", help=help_) from error
        written.append(path)
    if options.pages is not None and manifest is not None:
        write_pages(options.pages, report, manifest, at, options.jobs)
        written.append(options.pages)
    commands = workflow_commands(all_annotations(report, at)) if options.github else []
    output = ""
    if options.json:
        output = json.dumps(document(report, at), indent=2)
    elif options.markdown == STANDARD_OUTPUT:
        output = markdown_summary(report, at)
    return Printed(output, tuple(commands), tuple(written))


def write_failure(manifest: Path, error: HetesynthError, options: ReportOptions, *, checked: bool) -> Printed:
    """The reports of a build or a check that ``error`` stopped before it had a cell; JSON has its own form."""
    report = BuildReport(manifest, manifest.parent, (), failure_findings(error, manifest), checked=checked)
    printed = write_reports(report, options)
    return Printed("" if options.json else printed.output, printed.commands, printed.written)


def report_places(path: Path, manifest: Manifest | None = None) -> Places:
    """Where things are, as far as the manifest at ``path`` can be read."""
    git = (folder for folder in Path(os.path.abspath(path)).parents if (folder / ".git").exists())
    root = next(git, Path.cwd())
    lines = {entry.name: entry.line for entry in manifest.clusters} if manifest is not None else {}
    return Places(root, Places(root, "").shown(path), lines)
