"""What a build came to as JUnit XML, and as Markdown.

In: a ``BuildReport``, places. Out: XML of the strictest schema in use, that of Jenkins' xUnit plugin: figures are
properties of the suite and output of the case, since a case may have no properties there. Text of GitHub's
Markdown of at most so many bytes. Names and messages are text in both, never markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape

from hetesynth.deploy.outcome import BuildReport, CellReport
from hetesynth.deploy.reports.annotations import explained
from hetesynth.deploy.reports.words import (
    WHOLE_BUILD,
    Places,
    cell_name,
    change_percent,
    counts_text,
    groups,
    needing_attention,
    one_line,
    properties,
    shown,
    verdict,
)
from hetesynth.model.diagnostics import visible
from hetesynth.model.words import of_limit

FOLDERS = "folders"  # under which name folders that are not what a build would write are told
_NO_CHARACTER = re.compile("[\ufffe\uffff]")  # of XML; the others are shown escaped anyway
MARK = "<!-- hetesynth build -->"  # the first line of every summary of ours
MAX_BYTES = 1_000_000  # GitHub takes 1 MiB of one step
UNFOLDED = 12  # rows of a table that is shown at once
FIRST_ROWS = 50  # of what needs attention, and of findings
_HEAD = (
    "| cell | status | program | size | of the limit | x rings | last run |\n|---|---|---:|---:|---:|---:|---:|\n"
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
            lines += _case(name, cell_name(cell), *_inside(cell))
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


def _inside(cell: CellReport) -> Iterator[str]:
    """What stands in the case of a cell: why it is bad or skipped, then status and figures on one line."""
    if cell.bad:
        listed = "\n".join(one_line(message) for message in cell.messages) or cell.status
        yield f"<failure{_attributes(type=cell.status, message=explained(cell))}>{_text(listed)}</failure>"
    elif cell.status == "kept":
        yield f"<skipped{_attributes(type=cell.status, message=explained(cell))}/>"
    at = shown(cell)
    parts = [
        f"{at.time} for {at.size}" if at.time else "",
        of_limit(at.percent.removesuffix(" %")) if at.percent else "",
        f"{at.factor} x rings" if at.factor else "",
        f"against the last run: {at.change}" if at.change else "",
    ]
    yield f"<system-out>{_text(', '.join([cell.status, *filter(None, parts)]))}</system-out>"


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
