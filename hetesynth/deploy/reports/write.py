"""The reports of a build that are asked for, written; what goes to standard output is handed back.

In: a ``BuildReport``, options, the manifest where it could be read. Out: files, and lines for the caller to print.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hetesynth.deploy.manifest.values import Manifest
from hetesynth.deploy.outcome import BuildReport
from hetesynth.deploy.reports.annotations import all_annotations
from hetesynth.deploy.reports.document import document
from hetesynth.deploy.reports.findings import failure_findings
from hetesynth.deploy.reports.github import workflow_commands
from hetesynth.deploy.reports.gitlab import code_quality
from hetesynth.deploy.reports.junit import junit_xml
from hetesynth.deploy.reports.markdown import MAX_BYTES, markdown_summary
from hetesynth.deploy.reports.options import STANDARD_OUTPUT, ReportOptions
from hetesynth.deploy.reports.places import Places, repository_root, shown_path
from hetesynth.errors import HetesynthError
from hetesynth.files.atomic import write_atomically


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
    files = report_files(report, options, at)
    for path, data in files.items():
        write_atomically(path, data)
    written = list(files)
    if options.appended is not None:
        _append(options.appended, report, at)
        written.append(options.appended)
    if options.pages is not None and manifest is not None:
        from hetesynth.deploy.reports.pages import write_pages

        write_pages(options.pages, report, manifest, at, options.jobs)
        written.append(options.pages)
    commands = workflow_commands(all_annotations(report, at)) if options.github else []
    return Printed(_output(report, options, at), tuple(commands), tuple(written))


def write_failure(
    manifest: Path, error: HetesynthError, options: ReportOptions, *, checked: bool = False
) -> Printed:
    """The reports of a build or a check that ``error`` stopped before it had a cell; JSON has its own form."""
    report = BuildReport(manifest, manifest.parent, (), failure_findings(error, manifest), checked=checked)
    printed = write_reports(report, options)
    return Printed("" if options.json else printed.output, printed.commands, printed.written)


def report_places(path: Path, manifest: Manifest | None = None) -> Places:
    """Where things are, as far as the manifest at ``path`` can be read."""
    root = repository_root(path)
    lines = {entry.name: entry.line for entry in manifest.clusters} if manifest is not None else {}
    return Places(root, shown_path(path, root), lines)


def report_files(report: BuildReport, options: ReportOptions, at: Places) -> Mapping[Path, bytes]:
    """The files that are written whole, by their names."""
    files: dict[Path, bytes] = {}
    if options.junit is not None:
        files[options.junit] = junit_xml(report, at)
    if options.gitlab is not None:
        files[options.gitlab] = code_quality(all_annotations(report, at))
    if options.sarif is not None:
        from hetesynth.deploy.reports.sarif_annotations import sarif_annotations

        files[options.sarif] = sarif_annotations(all_annotations(report, at))
    if options.markdown is not None and options.markdown in options.files:
        files[options.markdown] = markdown_summary(report, at).encode()
    return files


def _output(report: BuildReport, options: ReportOptions, at: Places) -> str:
    if options.json:
        return json.dumps(document(report, at), indent=2)
    return markdown_summary(report, at) if options.markdown == STANDARD_OUTPUT else ""


def _append(path: Path, report: BuildReport, at: Places) -> None:
    """Add the summary to what other commands of the step wrote, as far as the forge takes it."""
    try:
        before = path.stat().st_size if path.exists() else 0
        summary = markdown_summary(report, at, max(0, MAX_BYTES - before)).encode()
        with path.open("ab") as file:
            file.write(summary)
    except OSError as error:
        raise HetesynthError(
            f"cannot write {path}: {error.strerror}", code="HS857", help="give a file that can be written"
        ) from error
