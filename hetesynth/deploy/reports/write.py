"""The reports of a build that are asked for, written; what goes to standard output is handed back."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

from hetesynth.deploy.manifest.values import Manifest
from hetesynth.deploy.outcome import BuildReport, TopologyFinding
from hetesynth.deploy.reports.pages import INDEX_MARK, INDEX_PAGE, write_pages
from hetesynth.deploy.reports.words import (
    STATUSES,
    WHOLE_BUILD,
    Places,
    all_annotations,
    cell_name,
    change_percent,
    code_quality,
    counts,
    counts_text,
    explained,
    figures,
    groups,
    needing_attention,
    one_line,
    properties,
    sarif_annotations,
    shown,
    verdict,
    workflow_commands,
)
from hetesynth.deploy.topology_files import lint_files
from hetesynth.engine.places import demand_place
from hetesynth.errors import HetesynthError
from hetesynth.files.atomic import write_atomically
from hetesynth.files.regular_files import open_regular
from hetesynth.model.diagnostics import Diagnostic, SourceError, visible
from hetesynth.model.words import of_limit

FOLDERS = "folders"  # under which name folders that are not what a build would write are told
_NO_CHARACTER = re.compile("[\ufffe\uffff]")  # of XML; the others are shown escaped anyway
MARK = "<!-- hetesynth build -->"  # the first line of every summary of ours
MAX_BYTES = 1_000_000  # GitHub takes 1 MiB of one step
UNFOLDED = 12  # rows of a table that is shown at once
FIRST_ROWS = 50  # of what needs attention, and of findings
_HEAD = (
    "| cell | status | program | size | of the limit | x library | last run |\n"
    "|---|---|---:|---:|---:|---:|---:|\n"
)


def junit_xml(report: BuildReport, places: Places) -> bytes:
    """The report as it is written."""
    stopped = [finding for finding in report.findings if finding.severity == "error"]
    folders = [finding for finding in report.folders if finding.stale]
    failures = sum(cell.bad for cell in report.cells) + len(folders)
    tests = len(report.cells) + len(folders) + len(stopped)
    numbers = _attributes(tests=tests, failures=failures, errors=len(stopped), time=f"{report.seconds:.3f}")
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f'<testsuites name="hetesynth build"{numbers}>']
    for (cluster, target), cells in groups(report).items():
        name = f"{cluster}/{target}"
        bad, kept = sum(cell.bad for cell in cells), sum(cell.status == "kept" for cell in cells)
        lines.append(_opening(name, places, tests=len(cells), failures=bad, errors=0, skipped=kept))
        pairs = [(f"{cell_name(cell)}.{key}", value) for cell in cells for key, value in properties(cell).items()]
        rows = [f"<property{_attributes(name=key, value=value)}/>" for key, value in pairs]
        lines += ["<properties>", *rows, "</properties>"] if rows else []
        for cell in cells:
            inside = []  # why it is bad or skipped, then status and figures on one line
            if cell.bad:
                listed = "\n".join(one_line(message) for message in cell.messages) or cell.status
                said = _attributes(type=cell.status, message=explained(cell))
                inside.append(f"<failure{said}>{_text(listed)}</failure>")
            elif cell.status == "kept":
                inside.append(f"<skipped{_attributes(type=cell.status, message=explained(cell))}/>")
            at = shown(cell)
            parts = [
                cell.status,
                f"{at.time} for {at.size}" if at.time else "",
                of_limit(at.percent.removesuffix(" %")) if at.percent else "",
                f"{at.factor} x library" if at.factor else "",
                f"against the last run: {at.change}" if at.change else "",
            ]
            inside.append(f"<system-out>{_text(', '.join(filter(None, parts)))}</system-out>")
            lines += _case(name, cell_name(cell), *inside)
        lines.append("</testsuite>")
    if folders:
        lines.append(_opening(FOLDERS, places, tests=len(folders), failures=len(folders), errors=0, skipped=0))
        for index, folder in enumerate(folders, 1):
            failure = f"<failure{_attributes(type='stale', message=folder.message)}/>"
            lines += _case(FOLDERS, f"{places.shown(folder.folder)} {index}", failure)
        lines.append("</testsuite>")
    if stopped:
        lines.append(_opening(WHOLE_BUILD, places, tests=len(stopped), failures=0, errors=len(stopped), skipped=0))
        for finding in stopped:
            where = f"{places.shown(finding.file)}:{finding.line}:{finding.column}"
            message = f"{finding.message}; {finding.help}" if finding.help else finding.message
            error = f"<error{_attributes(type=finding.code, message=message)}>{_text(where)}</error>"
            lines += _case(WHOLE_BUILD, f"{where} {finding.code}", error)
        lines.append("</testsuite>")
    return "\n".join([*lines, "</testsuites>", ""]).encode()


def _opening(name: str, places: Places, **numbers: int) -> str:
    return f"<testsuite{_attributes(name=name, **numbers, time=0, file=places.manifest)}>"


def _case(suite: str, name: str, *inside: str) -> list[str]:
    """A case; no cell has a time of its own, and reporters that compute with it need a number."""
    return [f"<testcase{_attributes(classname=suite, name=name, time=0)}>", *inside, "</testcase>"]


def _attributes(**values: str | int) -> str:
    return "".join(f' {name}="{_text(one_line(str(value)))}"' for name, value in values.items())


def _text(text: str) -> str:
    """Safe in an element and in quotes: no markup, no ``]]>``, no character that XML does not have."""
    return escape(_NO_CHARACTER.sub("?", visible(text)))


_MARKUP = str.maketrans({character: f"\\{character}" for character in "\\`*_{}[]<>()#!|~^$"} | {"&": "&amp;"})


def markdown_summary(report: BuildReport, places: Places, most: int = MAX_BYTES) -> str:
    """The summary; tables that do not fit in ``most`` bytes are left out, which it then says."""
    what = "Schedules checked" if report.checked else "Schedules built"
    changes = [change for change in map(change_percent, report.cells) if change is not None]
    quicker, slower = sum(c <= -0.05 for c in changes), sum(c >= 0.05 for c in changes)
    changed = f"; against the last run {quicker} quicker, {slower} slower" if quicker or slower else ""
    head = f"{MARK}\n## {what}: {verdict(report)}\n\n{text(counts_text(report))}{changed}\n"
    head += "".join(f"\n**Warning:** {text(warning)}\n" for warning in report.warnings[:FIRST_ROWS])
    parts = [head]
    worst = needing_attention(report)
    if worst:
        rows = [f"| {text(c.cell.name)} | {c.status} | {text(explained(c))} |" for c in worst]
        table = _rows("| cell | status | why, and what to do |\n|---|---|---|", rows)
        parts.append(f"\n### Needs attention\n\n{table}")
    if report.folders:
        rows = [
            f"| {text(places.shown(f.folder))} | {'stale' if f.stale else 'note'} | {text(f.message)} |"
            for f in report.folders
        ]
        table = _rows("| folder | | what |\n|---|---|---|", rows)
        parts.append(_folded(f"Folders: {len(rows)}", table, min(len(rows), FIRST_ROWS)))
    if report.findings:
        rows = [
            f"| {text(places.shown(f.file))}:{f.line}:{f.column} "
            f"| {f.severity} {text(f.code)} | {text(f.message)} |"
            for f in report.findings
        ]
        title = f"{'Topology files' if report.cells else 'Files'}: {len(rows)}"
        table = _rows("| place | finding | what |\n|---|---|---|", rows)
        parts.append(_folded(title, table, min(len(rows), FIRST_ROWS)))
    for (cluster, target), cells in groups(report).items():
        table = _HEAD
        for cell in cells:
            at = shown(cell)
            columns = (text(cell_name(cell)), cell.status, at.time, at.size, at.percent, at.factor, at.change)
            table += f"| {' | '.join(columns)} |\n"
        parts.append(_folded(f"{cluster}, {target}", table, len(cells)))
    room, kept = most - 200, list[str]()
    for part in parts:
        if len(part.encode()) > room:
            kept.append("\nThe rest does not fit here; `hetesynth build --json` has all of it.\n")
            break
        room -= len(part.encode())
        kept.append(part)
    return "".join(kept)


def text(value: str) -> str:
    """``value`` as text in a line or in a cell of a table."""
    return one_line(value).translate(_MARKUP).replace("://", ":&#47;/").replace("www.", "www&#46;")


def _rows(head: str, rows: Sequence[str]) -> str:
    table = "".join(f"{row}\n" for row in (head, *rows[:FIRST_ROWS]))
    return table + (f"\nand {len(rows) - FIRST_ROWS} more\n" if len(rows) > FIRST_ROWS else "")


def _folded(title: str, table: str, rows: int) -> str:
    """A table under its title; a long one is folded."""
    if rows <= UNFOLDED:
        return f"\n### {text(title)}\n\n{table}"
    return f"\n<details><summary>{escape(one_line(title))} ({rows} rows)</summary>\n\n{table}\n</details>\n"


FORMAT = 1  # raised where a field changes its meaning or goes; a new field raises nothing
STANDARD_OUTPUT = Path("-")
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
_START = 256  # bytes in which a mark is
_JUNIT = rb'<testsuites name="hetesynth build"'
_GITLAB = rb'\A\[(\]|\s+\{\s+"description": )'
_SARIF = rb'\A\{\s+"\$schema": "[^"]*sarif'
_FORGES = "give github, gitlab=FILE or sarif=FILE"


def topology_findings(manifest: Manifest) -> tuple[TopologyFinding, ...]:
    """The findings about each topology file, each file once, in the order of the manifest."""
    findings: list[TopologyFinding] = []
    for file in lint_files([entry.topology for entry in manifest.clusters]):
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
    return {
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


def report_options(*, as_json: bool = False, annotations: Sequence[str] = (), **asked: Any) -> ReportOptions:
    """What the options of ``build`` ask for. Raises HetesynthError where they are wrong or cannot be met."""
    places: dict[str, Any] = {}
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
    summary, markdown = os.environ.get(STEP_SUMMARY), asked.get("markdown")
    is_summary = summary and markdown is not None and os.path.realpath(markdown) == os.path.realpath(summary)
    options = ReportOptions(
        json=as_json, github=github, appended=markdown if is_summary else None, **places, **asked
    )
    if options.json and options.markdown == STANDARD_OUTPUT:
        help_ = "give one of them a file"
        raise HetesynthError("--json and --markdown - both write to standard output", code="HS856", help=help_)
    if STANDARD_OUTPUT in options.files:
        raise HetesynthError("only --markdown writes to standard output", code="HS856", help="name a file")
    names = [os.path.realpath(path) for path in (*options.files, options.pages) if path is not None]
    if len(names) != len(set(names)):
        raise HetesynthError("two reports have the same name", code="HS570", help="give them two names")
    ours = {options.junit: _JUNIT, options.gitlab: _GITLAB, options.sarif: _SARIF}
    ours |= {options.markdown if options.markdown in options.files else None: re.escape(MARK.encode())}
    for path, beginning in ours.items():
        if path is not None:
            demand_place(path)
            _demand_ours(path, beginning)
    if options.pages is not None:
        _demand_ours(options.pages / INDEX_PAGE, re.escape(INDEX_MARK.encode()))
    return options


def demand_outside(options: ReportOptions, folders: Iterable[Path]) -> None:
    """HetesynthError HS857 where a report would be in one of ``folders``, which are exchanged as a whole."""
    places = [os.path.realpath(folder) for folder in folders]
    for path in (*options.files, options.pages):
        if path is not None and any(Path(os.path.realpath(path)).is_relative_to(place) for place in places):
            help_ = "name a place beside the output"
            raise HetesynthError(f"{path} would be in a folder that is deployed", code="HS857", help=help_)


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
    notes = all_annotations(report, at)
    texts: dict[Path | None, Callable[[], bytes]] = {
        options.junit: lambda: junit_xml(report, at),
        options.gitlab: lambda: code_quality(notes),
        options.sarif: lambda: sarif_annotations(notes),
        options.markdown: lambda: markdown_summary(report, at).encode(),
    }
    for path in options.files:
        write_atomically(path, texts[path]())
    written = [*options.files]
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
    commands = workflow_commands(notes) if options.github else []
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
