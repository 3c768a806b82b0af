"""The options of ``build`` for its reports, and what of them goes to standard output."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hetesynth.cli.options import json_option
from hetesynth.cli.terminal import show
from hetesynth.errors import HetesynthError

if TYPE_CHECKING:
    from hetesynth.deploy.manifest.values import Manifest
    from hetesynth.deploy.outcome import BuildReport
    from hetesynth.deploy.reports.write import Printed, ReportOptions

F = TypeVar("F", bound=Callable[..., Any])
_FILE = click.Path(path_type=Path)
_OPTIONS = [
    json_option,
    click.option(
        "--junit", type=_FILE, metavar="FILE", help="JUnit XML: a suite for each folder, a case for each cell."
    ),
    click.option(
        "--annotations", multiple=True, metavar="FORGE[=FILE]",
        help="Findings where a forge shows them, repeatable: github (workflow commands), gitlab=FILE (Code "
        "Quality), sarif=FILE.",
    ),
    click.option("--markdown", type=_FILE, metavar="FILE", help="A summary; - is standard output."),
    click.option("--pages", type=_FILE, metavar="FOLDER", help="HTML: an index, and a report for each cell."),
]  # fmt: skip


def build_report_options(function: F) -> F:
    """``--json``, ``--junit``, ``--annotations``, ``--markdown`` and ``--pages``."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@contextmanager
def reported_failures(manifest: Path, options: ReportOptions, *, checked: bool) -> Iterator[None]:
    """What stops a build or a check is in its reports too."""
    try:
        yield
    except HetesynthError as error:
        if options.any:
            from hetesynth.deploy.reports.write import write_failure

            _print(write_failure(manifest, error, options, checked=checked), options)
        raise


def show_reports(report: BuildReport, options: ReportOptions, manifest: Manifest, text: str) -> None:
    """Write the reports; print the one that goes to standard output, or else ``text``."""
    if not options.any:
        show(text)
        return
    from dataclasses import replace

    from hetesynth.deploy.reports.write import topology_findings, write_reports

    if options.shows_findings and not report.findings:
        report = replace(report, findings=topology_findings(manifest))
    printed = write_reports(report, options, manifest)
    if not options.talks:
        show(text)
        for path in printed.written:
            show(f"wrote {path}")
    _print(printed, options)


def _print(printed: Printed, options: ReportOptions) -> None:
    """Commands go to standard error where standard output is a report: a forge reads both."""
    if printed.output:
        show(printed.output)
    for line in printed.commands:
        show(line, err=options.talks)
