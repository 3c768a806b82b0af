"""What a build came to as Markdown: counts, what needs attention, a table for each cluster and target.

In: a ``BuildReport``, a number of bytes. Out: text of GitHub's Markdown of at most so many bytes. Names and
messages are text in it, never markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from hetesynth.deploy.outcome import BuildReport, CellReport
from hetesynth.deploy.reports.annotations import explained
from hetesynth.deploy.reports.figures import change_percent, shown
from hetesynth.deploy.reports.places import Places
from hetesynth.deploy.reports.words import cell_name, counts_text, groups, needing_attention, one_line, verdict

MARK = "<!-- hetesynth build -->"
"""The first line of every summary of ours."""
MAX_BYTES = 1_000_000
"""GitHub takes 1 MiB of one step."""
UNFOLDED = 12
"""Rows of a table that is shown at once."""
FIRST_ROWS = 50
"""Of what needs attention, and of findings."""
_MARKUP = str.maketrans({character: f"\\{character}" for character in "\\`*_{}[]<>()#!|~^$"} | {"&": "&amp;"})
_HEAD = (
    "| cell | status | program | size | of the limit | x rings | last run |\n|---|---|---:|---:|---:|---:|---:|\n"
)


def markdown_summary(report: BuildReport, places: Places, most: int = MAX_BYTES) -> str:
    """The summary; tables that do not fit in ``most`` bytes are left out, which it then says."""
    head = f"{MARK}\n## {_title(report)}\n\n{text(counts_text(report))}{_changes(report)}\n"
    head += "".join(f"\n**Warning:** {text(warning)}\n" for warning in report.warnings[:FIRST_ROWS])
    parts = [head, _attention(report), _folders(report, places), _findings(report, places)]
    parts += [_table(name, cells) for name, cells in groups(report).items()]
    room, kept = most - 200, list[str]()
    for part in filter(None, parts):
        if len(part.encode()) > room:
            kept.append("\nThe rest does not fit here; `hetesynth build --json` has all of it.\n")
            break
        room -= len(part.encode())
        kept.append(part)
    return "".join(kept)


def text(value: str) -> str:
    """``value`` as text in a line or in a cell of a table."""
    return one_line(value).translate(_MARKUP).replace("://", ":&#47;/").replace("www.", "www&#46;")


def _title(report: BuildReport) -> str:
    what = "Schedules checked" if report.checked else "Schedules built"
    return f"{what}: {verdict(report)}"


def _changes(report: BuildReport) -> str:
    """How many programs are quicker and slower than in the last run."""
    changes = [text_of for text_of in map(change_percent, report.cells) if text_of is not None]
    quicker, slower = sum(c <= -0.05 for c in changes), sum(c >= 0.05 for c in changes)
    return f"; against the last run {quicker} quicker, {slower} slower" if quicker or slower else ""


def _attention(report: BuildReport) -> str:
    cells = needing_attention(report)
    if not cells:
        return ""
    rows = [f"| {text(c.cell.name)} | {c.status} | {text(explained(c))} |\n" for c in cells[:FIRST_ROWS]]
    head = "| cell | status | why, and what to do |\n|---|---|---|\n"
    return f"\n### Needs attention\n\n{head}{''.join(rows)}{_more(cells)}"


def _folders(report: BuildReport, places: Places) -> str:
    if not report.folders:
        return ""
    rows = [
        f"| {text(places.shown(f.folder))} | {'stale' if f.stale else 'note'} | {text(f.message)} |\n"
        for f in report.folders[:FIRST_ROWS]
    ]
    table = f"| folder | | what |\n|---|---|---|\n{''.join(rows)}{_more(report.folders)}"
    return _folded(f"Folders: {len(report.folders)}", table, len(rows))


def _findings(report: BuildReport, places: Places) -> str:
    if not report.findings:
        return ""
    rows = [
        f"| {text(places.shown(f.file))}:{f.line}:{f.column} | {f.severity} {text(f.code)} | {text(f.message)} |\n"
        for f in report.findings[:FIRST_ROWS]
    ]
    what = "Topology files" if report.cells else "Files"
    table = f"| place | finding | what |\n|---|---|---|\n{''.join(rows)}{_more(report.findings)}"
    return _folded(f"{what}: {len(report.findings)}", table, len(rows))


def _more(all_: Sequence[object]) -> str:
    return f"\nand {len(all_) - FIRST_ROWS} more\n" if len(all_) > FIRST_ROWS else ""


def _table(name: tuple[str, str], cells: Sequence[CellReport]) -> str:
    rows = []
    for cell in cells:
        at = shown(cell)
        columns = (text(cell_name(cell)), cell.status, at.time, at.size, at.percent, at.factor, at.change)
        rows.append(f"| {' | '.join(columns)} |\n")
    return _folded(f"{name[0]}, {name[1]}", _HEAD + "".join(rows), len(rows))


def _folded(title: str, table: str, rows: int) -> str:
    """A table under its title; a long one is folded."""
    if rows <= UNFOLDED:
        return f"\n### {text(title)}\n\n{table}"
    return f"\n<details><summary>{escape(one_line(title))} ({rows} rows)</summary>\n\n{table}\n</details>\n"
