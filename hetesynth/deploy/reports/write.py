"""The reports of a build that are asked for, written; what goes to standard output is handed back."""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from hetesynth.deploy.folder.folder import place
from hetesynth.deploy.manifest.values import Manifest
from hetesynth.deploy.outcome import BuildReport
from hetesynth.deploy.reports import words
from hetesynth.deploy.reports.pages import INDEX_PAGE, write_pages
from hetesynth.engine.places import demand_place
from hetesynth.errors import HetesynthError
from hetesynth.files.atomic import write_atomically
from hetesynth.files.regular_files import open_regular
from hetesynth.model.diagnostics import Diagnostic, SourceError, Span

MARK = "<!-- hetesynth build -->"  # the first line of every summary of ours
MAX_BYTES = 1_000_000  # GitHub takes 1 MiB of one step
UNFOLDED = 12  # rows of a table that is shown at once

# suite; name; failure, error, skipped or nothing; its type; why; what else
Case = tuple[str, str, str, str, str, str]


def _cases(report: BuildReport, places: words.Places) -> Iterator[Case]:
    for (cluster, target), cells in words.groups(report).items():
        for cell in cells:
            kind = "failure" if cell.bad else "skipped" if cell.status == "kept" else ""
            said = ", ".join(filter(None, (cell.status, *words.shown(cell))))
            why = words.explained(cell) if kind else words.reason(cell)
            yield f"{cluster}/{target}", words.cell_name(cell), kind, cell.status, why, said
    for number, folder in enumerate((finding for finding in report.folders if finding.stale), 1):
        yield "folders", f"{places.shown(folder.folder)} {number}", "failure", "stale", folder.message, ""
    for finding in report.findings:
        if finding.severity == "error":
            place, why = places.spot(finding.span), f"{finding.message}; {finding.help}".rstrip("; ")
            yield words.WHOLE_BUILD, f"{place} {finding.code}", "error", finding.code, why, place


def junit_xml(report: BuildReport, places: words.Places) -> bytes:
    """Return JUnit XML: a suite for each cluster and target, one for folders, one for what stopped the build."""
    every = list(_cases(report, places))

    def numbers(cases: Sequence[Case]) -> dict[str, str]:
        kinds = {"tests": None, "failures": "failure", "errors": "error"}
        return {name: str(sum(kind in (None, case[2]) for case in cases)) for name, kind in kinds.items()}

    named = {"name": "hetesynth build", **numbers(every), "time": f"{report.seconds:.3f}"}
    root = ElementTree.Element("testsuites", named)
    for name, of_suite in groupby(every, key=itemgetter(0)):
        cases = list(of_suite)
        suite = ElementTree.SubElement(
            root, "testsuite", {"name": words.markup(name), **numbers(cases), "time": "0"}
        )
        suite.set("skipped", str(sum(case[2] == "skipped" for case in cases)))
        for _, title, kind, type_, why, more in cases:
            # no cell has a time of its own, and reporters that compute with it need a number
            element = ElementTree.SubElement(
                suite, "testcase", classname=words.markup(name), name=words.markup(title), time="0"
            )
            if kind:
                ElementTree.SubElement(element, kind, type=type_, message=words.markup(why))
            if more:
                ElementTree.SubElement(element, "system-out").text = words.markup(more)
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, xml_declaration=True, encoding="UTF-8")
    return text + b"\n"


_MARKUP = str.maketrans({character: f"\\{character}" for character in "\\`*_{}[]<>()#!|~^$"} | {"&": "&amp;"})


def markdown_summary(report: BuildReport, places: words.Places, most: int = MAX_BYTES) -> str:
    """Return the summary; tables that do not fit in ``most`` bytes are left out, and it says so."""
    head = f"{MARK}\n## {words.heading(report)}\n\n{text(words.counts_text(report))}\n"
    parts = [head, *(f"\n**Warning:** {text(warning)}\n" for warning in report.warnings)]
    for table in words.sections(report, places):
        aligned = ["---"] * 2 + ["---:" if table.keys else "---"] * (len(table.head) - 2)
        lines = [" | ".join(table.head), " | ".join(aligned), *(" | ".join(map(text, row)) for row in table.rows)]
        rows = "".join(f"| {line} |\n" for line in lines)
        if len(table.rows) <= UNFOLDED:
            parts.append(f"\n### {text(table.title)}\n\n{rows}")
        else:
            title = f"{escape(words.one_line(table.title))} ({len(table.rows)} rows)"
            parts.append(f"\n<details><summary>{title}</summary>\n\n{rows}\n</details>\n")
    room, kept = most - 200, list[str]()
    for part in parts:
        if len(part.encode()) > room:
            kept.append("\nThe rest does not fit here; `hetesynth build --json` has all of it.\n")
            break
        room -= len(part.encode())
        kept.append(part)
    return "".join(kept)


def text(value: str) -> str:
    """Return ``value`` escaped for a line or a table's cell in Markdown."""
    return words.one_line(value).translate(_MARKUP).replace("://", ":&#47;/").replace("www.", "www&#46;")


FORMAT = 1  # raised where a field changes its meaning or goes; a new field raises nothing
STANDARD_OUTPUT = Path("-")
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
_OURS = re.compile(  # how the reports of a build begin
    rb"\A(<!-- hetesynth build -->|<!doctype html>\s<!-- hetesynth build index -->|"
    rb'(<\?xml[^>]*>\s*)?<testsuites name="hetesynth build"|\[(\]|\s+\{\s+"description": )|'
    rb'\{\s+"\$schema": "[^"]*sarif)'
)


def topology_findings(manifest: Manifest) -> tuple[Diagnostic, ...]:
    """The findings about each topology file, each file once, in the order of the manifest."""
    from hetesynth.deploy.topology_files import lint_files

    findings: list[Diagnostic] = []
    for file in lint_files([entry.topology for entry in manifest.clusters]):
        findings += file.findings if file.error is None else failure_findings(file.error, file.path)
    return tuple(dict.fromkeys(findings))  # two clusters may import one file


def failure_findings(error: HetesynthError, file: str | Path) -> tuple[Diagnostic, ...]:
    """Return the findings of ``error``; one that points into no file that is there is about all of ``file``."""
    whole = Span(str(file), 1, 1)
    if not isinstance(error, SourceError):
        return (Diagnostic(error.code, whole, error.message, error.help),)
    there = (f if Path(f.span.file).is_file() else replace(f, span=whole) for f in error.diagnostics)
    return tuple(dict.fromkeys(there))


def document(report: BuildReport, places: words.Places) -> dict[str, Any]:
    """Return ``report`` as the object of ``build --json``."""
    cells = []
    for told in report.cells:
        cell = told.cell
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
                "figures": words.figures(told.record),
                "change_percent": words.change_percent(told),
                "files": sorted(map(place, (told.record or {}).get("files", ()))),
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
        "counts": {**dict.fromkeys(words.STATUSES, 0), **words.counts(report), "all": len(report.cells)},
        "warnings": list(report.warnings),
        "written": [places.shown(path) for path in report.written],
        "cells": cells,
        "folders": [{**asdict(finding), "folder": places.shown(finding.folder)} for finding in report.folders],
        "findings": [{**one.plain(), "file": places.shown(one.span.file)} for one in report.findings],
    }


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The reports that are asked for. ``github``: workflow commands; the others are files, None: not asked for.
    ``markdown``: ``-`` is standard output. ``appended``: the file that a summary is added to, never replaced.
    ``pages``: a folder. ``jobs``: processes that make pages."""

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
    def files(self) -> tuple[Path, ...]:
        """The files that are written whole."""
        markdown = None if self.markdown in (STANDARD_OUTPUT, self.appended) else self.markdown
        return tuple(path for path in (self.junit, self.gitlab, self.sarif, markdown) if path is not None)

    @property
    def talks(self) -> bool:
        """True where standard output is a report, so that no other text belongs there."""
        return self.json or self.markdown == STANDARD_OUTPUT


def report_options(*, as_json: bool = False, annotations: Sequence[str] = (), **asked: Any) -> ReportOptions:
    """Return the reports that ``build`` is asked for. Raises HetesynthError for wrong or impossible options."""
    github = "github" in annotations
    files = [stated.partition("=")[::2] for stated in annotations if stated != "github"]
    places: dict[str, Any] = {forge: Path(file) for forge, file in files}
    if len(places) < len(files) or not places.keys() <= {"gitlab", "sarif"} or not all(dict(files).values()):
        message, help_ = "--annotations are said otherwise", "give github, gitlab=FILE or sarif=FILE, each once"
        raise HetesynthError(message, code="HS856", help=help_)
    summary, markdown = os.environ.get(STEP_SUMMARY), asked.get("markdown")
    is_summary = summary and markdown is not None and os.path.realpath(markdown) == os.path.realpath(summary)
    options = ReportOptions(
        json=as_json, github=github, appended=markdown if is_summary else None, **places, **asked
    )
    if STANDARD_OUTPUT in options.files or (options.json and options.markdown == STANDARD_OUTPUT):
        message, help_ = "one report at most goes to standard output: --json, or --markdown -", "name files"
        raise HetesynthError(message, code="HS856", help=help_)
    names = [os.path.realpath(path) for path in (*options.files, options.pages) if path is not None]
    if len(names) != len(set(names)):
        raise HetesynthError("two reports have the same name", code="HS570", help="give them two names")
    for path in options.files:
        demand_place(path)
    for path in (*options.files, *(() if options.pages is None else (options.pages / INDEX_PAGE,))):
        try:  # what a build wrote may be replaced, what somebody else wrote may not
            with open_regular(path) as file:
                start = file.read(256)
        except FileNotFoundError:
            continue
        except OSError as error:
            message, help_ = f"cannot read {path}: {error.strerror}", "give another name"
            raise HetesynthError(message, code="HS857", help=help_) from error
        if start and not _OURS.match(start):
            message, help_ = f"{path} is not of a build and would be replaced", "give another name"
            raise HetesynthError(message, code="HS857", help=help_)
    return options


def demand_outside(options: ReportOptions, folders: Iterable[Path]) -> None:
    """Raise HetesynthError HS857 where a report would be in one of ``folders``, which are replaced as a whole."""
    places = [os.path.realpath(folder) for folder in folders]
    for path in (*options.files, options.pages):
        if path is not None and any(Path(os.path.realpath(path)).is_relative_to(place) for place in places):
            help_ = "name a place beside the output"
            raise HetesynthError(f"{path} would be in a folder that is deployed", code="HS857", help=help_)


def write_reports(
    report: BuildReport, options: ReportOptions, manifest: Manifest | None = None
) -> tuple[str, list[str], list[Path]]:
    """Write what ``options`` ask for. ``manifest``: None where it is wrong; there are no pages then, and JSON has
    its own form. Returns a report for standard output, commands for a forge, and what was written."""
    at = report_places(report.manifest, manifest)
    notes = words.all_annotations(report, at)
    texts: dict[Path | None, Callable[[], bytes]] = {
        options.junit: lambda: junit_xml(report, at),
        options.gitlab: lambda: words.code_quality(notes),
        options.sarif: lambda: words.sarif_annotations(notes),
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
    output = ""
    if options.json and manifest is not None:
        output = json.dumps(document(report, at), indent=2)
    elif options.markdown == STANDARD_OUTPUT:
        output = markdown_summary(report, at)
    return output, words.workflow_commands(notes) if options.github else [], written


def report_places(path: Path, manifest: Manifest | None = None) -> words.Places:
    """Return the places for reports, with lines where the manifest at ``path`` could be read."""
    git = (folder for folder in Path(os.path.abspath(path)).parents if (folder / ".git").exists())
    root = next(git, Path.cwd())
    lines = {entry.name: entry.line for entry in manifest.clusters} if manifest is not None else {}
    return words.Places(root, words.Places(root, "").shown(path), lines)
