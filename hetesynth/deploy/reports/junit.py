"""What a build came to as JUnit XML: a suite for each cluster and target, a case for each of its cells.

In: a ``BuildReport``, places. Out: XML of the strictest schema in use, that of Jenkins' xUnit plugin: figures are
properties of the suite and output of the case, since a case may have no properties there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from hetesynth.deploy.outcome import BuildReport, CellReport, FolderFinding, TopologyFinding
from hetesynth.deploy.reports.annotations import explained
from hetesynth.deploy.reports.figures import properties, shown
from hetesynth.deploy.reports.places import Places
from hetesynth.deploy.reports.words import WHOLE_BUILD, cell_name, groups, is_bad, one_line
from hetesynth.model.diagnostics import visible
from hetesynth.model.words import of_limit

FOLDERS = "folders"
"""Under which name folders that are not what a build would write are told."""
_NO_CHARACTER = re.compile("[\ufffe\uffff]")  # of XML; the others are shown escaped anyway


def junit_xml(report: BuildReport, places: Places) -> bytes:
    """The report as it is written."""
    stopped = [finding for finding in report.findings if finding.severity == "error"]
    folders = [finding for finding in report.folders if finding.stale]
    failures = sum(is_bad(cell) for cell in report.cells) + len(folders)
    tests = len(report.cells) + len(folders) + len(stopped)
    numbers = _attributes(tests=tests, failures=failures, errors=len(stopped), time=f"{report.seconds:.3f}")
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f'<testsuites name="hetesynth build"{numbers}>']
    for (cluster, target), cells in groups(report).items():
        lines += _suite(f"{cluster}/{target}", cells, places)
    if folders:
        lines += _folders(folders, places)
    if stopped:
        lines += _stopped(stopped, places)
    return "\n".join([*lines, "</testsuites>", ""]).encode()


def _folders(findings: Sequence[FolderFinding], places: Places) -> Iterator[str]:
    yield _opening(FOLDERS, len(findings), len(findings), 0, 0, places)
    for index, finding in enumerate(findings, 1):
        inner = f"<failure{_attributes(type='stale', message=finding.message)}/>"
        yield _case(FOLDERS, f"{places.shown(finding.folder)} {index}", (inner,))
    yield "</testsuite>"


def _stopped(findings: Sequence[TopologyFinding], places: Places) -> Iterator[str]:
    yield _opening(WHOLE_BUILD, len(findings), 0, len(findings), 0, places)
    for finding in findings:
        where = f"{places.shown(finding.file)}:{finding.line}:{finding.column}"
        message = f"{finding.message}; {finding.help}" if finding.help else finding.message
        inner = f"<error{_attributes(type=finding.code, message=message)}>{_text(where)}</error>"
        yield _case(WHOLE_BUILD, f"{where} {finding.code}", (inner,))
    yield "</testsuite>"


def _suite(name: str, cells: Sequence[CellReport], places: Places) -> Iterator[str]:
    failures = sum(is_bad(cell) for cell in cells)
    skipped = sum(cell.status == "kept" for cell in cells)
    yield _opening(name, len(cells), failures, 0, skipped, places)
    pairs = [(f"{cell_name(cell)}.{key}", value) for cell in cells for key, value in properties(cell).items()]
    if pairs:
        rows = [f"<property{_attributes(name=key, value=value)}/>" for key, value in pairs]
        yield "\n".join(["<properties>", *rows, "</properties>"])
    for cell in cells:
        yield _case(name, cell_name(cell), _inside(cell))
    yield "</testsuite>"


def _opening(name: str, tests: int, failures: int, errors: int, skipped: int, places: Places) -> str:
    numbers = _attributes(tests=tests, failures=failures, errors=errors, skipped=skipped, time=0)
    return f"<testsuite{_attributes(name=name)}{numbers}{_attributes(file=places.manifest)}>"


def _case(suite: str, name: str, inside: Iterable[str]) -> str:
    """A case; no cell has a time of its own, and reporters that compute with it need a number."""
    return "\n".join([f"<testcase{_attributes(classname=suite, name=name, time=0)}>", *inside, "</testcase>"])


def _inside(cell: CellReport) -> Iterator[str]:
    if is_bad(cell):
        yield f"<failure{_attributes(type=cell.status, message=explained(cell))}>{_text(_listed(cell))}</failure>"
    elif cell.status == "kept":
        yield f"<skipped{_attributes(type=cell.status, message=explained(cell))}/>"
    yield f"<system-out>{_text(_told(cell))}</system-out>"


def _listed(cell: CellReport) -> str:
    return "\n".join(one_line(message) for message in cell.messages) or cell.status


def _told(cell: CellReport) -> str:
    """The status and the figures, on one line."""
    at = shown(cell)
    parts = [
        f"{at.time} for {at.size}" if at.time else "",
        of_limit(at.percent.removesuffix(" %")) if at.percent else "",
        f"{at.factor} x rings" if at.factor else "",
        f"against the last run: {at.change}" if at.change else "",
    ]
    return ", ".join([cell.status, *filter(None, parts)])


def _attributes(**values: str | int) -> str:
    return "".join(f' {name}="{_text(one_line(str(value)))}"' for name, value in values.items())


def _text(text: str) -> str:
    """Safe in an element and in quotes: no markup, no ``]]>``, no character that XML does not have."""
    return escape(_NO_CHARACTER.sub("?", visible(text)))
