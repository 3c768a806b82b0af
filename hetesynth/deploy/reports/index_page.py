"""The index of all cells: a table with a link to the page of each, and what changed since the last run.

In: a ``BuildReport``, links by the names of cells. Out: UTF-8 HTML, one file that loads nothing and sends nothing.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib.resources import files
from urllib.parse import quote

from hetesynth.deploy.outcome import BuildReport, CellReport
from hetesynth.deploy.reports.annotations import reason
from hetesynth.deploy.reports.chart import change_chart
from hetesynth.deploy.reports.figures import shown
from hetesynth.deploy.reports.places import Places
from hetesynth.deploy.reports.words import (
    ATTENTION,
    WAYS_OUT,
    cell_name,
    counts,
    groups,
    needing_attention,
    one_line,
    verdict,
)
from hetesynth.report.size_plot import text_markup

MARK = "<!-- hetesynth build index -->"
_HEADS = ("Cell", "Status", "Program", "At", "Of the limit", "x rings", "Last run")


def index_page(report: BuildReport, at: Places, links: Mapping[str, str], notes: Mapping[str, str]) -> bytes:
    """The page. ``links``: from the folder of the page; ``notes``: why a cell has none."""
    style, script = _source("index.css"), _source("index.js")
    policy = f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; base-uri 'none'"
    head = (
        f'<!doctype html>\n{MARK}\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}; form-action \'none\'">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{text_markup(one_line(at.manifest))}: schedules</title>\n"
        f"<style>{style}</style>\n</head>\n<body>\n"
    )
    parts = (
        _top(report, at),
        _attention(report),
        _folders(report, at),
        _tables(report, links, notes),
        _findings(report, at),
    )
    body = "\n".join(line for part in parts for line in part)
    return f"{head}{body}\n<script>{script}</script>\n</body>\n</html>\n".encode()


def _top(report: BuildReport, at: Places) -> Iterator[str]:
    what = "checked" if report.checked else "built"
    yield f"<header><h1>{text_markup(one_line(at.manifest))}</h1>"
    good = report.ok and not report.interrupted
    yield f'<p class="verdict {"good" if good else "bad"}">Schedules {what}: {verdict(report)}</p>'
    yield "".join(f"<p>Warning: {text_markup(one_line(warning))}</p>" for warning in report.warnings)
    pairs = [("cells", len(report.cells)), *counts(report).items()]
    facts = "".join(f"<div><dt>{name}</dt><dd>{number}</dd></div>" for name, number in pairs)
    yield f'<dl class="facts">{facts}</dl></header>'
    yield f"<main><section><h2>Since the last run</h2>{change_chart(report.cells)}</section>"


def _attention(report: BuildReport) -> Iterator[str]:
    cells = needing_attention(report)
    if not cells:
        return
    yield '<section><h2>Needs attention</h2><ul class="attention">'
    for cell in cells:
        why = reason(cell)
        yield (
            f"<li>{_status(cell)} <strong>{text_markup(one_line(cell.cell.name))}</strong>"
            f"{': ' if why else ''}{text_markup(why)} <span>{text_markup(WAYS_OUT[cell.status])}</span></li>"
        )
    yield "</ul></section>"


def _folders(report: BuildReport, at: Places) -> Iterator[str]:
    if report.folders:
        yield '<section><h2>Folders</h2><ul class="attention">'
        for finding in report.folders:
            status = _label("stale", "bad") if finding.stale else _label("note", "kept")
            folder, message = one_line(at.shown(finding.folder)), one_line(finding.message)
            yield f"<li>{status} <strong>{text_markup(folder)}</strong>: {text_markup(message)}</li>"
        yield "</ul></section>"


def _tables(report: BuildReport, links: Mapping[str, str], notes: Mapping[str, str]) -> Iterator[str]:
    yield '<section><h2>All cells</h2><p><label>Show <input id="filter" type="search" '
    yield 'placeholder="a cluster, a target, a status"></label> <span id="shown" role="status"></span></p>'
    heads = "".join(f'<th scope="col"{_right(k)}>{name}</th>' for k, name in enumerate(_HEADS))
    for (cluster, target), cells in groups(report).items():
        title = text_markup(one_line(f"{cluster}, {target}"))
        yield f'<div class="group"><h3>{title}</h3><div class="scroll">'
        yield f"<table><thead><tr>{heads}</tr></thead><tbody>"
        for cell in cells:
            yield _row(cell, links.get(cell.cell.name), notes.get(cell.cell.name, ""))
        yield "</tbody></table></div></div>"
    yield "</section>"


def _row(cell: CellReport, link: str | None, note: str) -> str:
    at, name = shown(cell), text_markup(one_line(cell_name(cell)))
    first = f'<a href="{text_markup(quote(link))}">{name}</a>' if link else name
    if note:
        first += f"<br><small>no page: {text_markup(one_line(note))}</small>"
    numbers = (at.time, at.size, at.percent, at.factor, at.change)
    columns = "".join(f"<td{_right(k)}>{text_markup(value)}</td>" for k, value in enumerate(numbers, 2))
    key = text_markup(one_line(f"{cell.cell.name} {cell.status}").lower())
    return f'<tr data-key="{key}"><th scope="row">{first}</th><td>{_status(cell)}</td>{columns}</tr>'


def _right(column: int) -> str:
    return ' class="number"' if column > 1 else ""


def _status(cell: CellReport) -> str:
    kind = "kept" if cell.status == "kept" else "bad" if cell.status in ATTENTION else "good"
    return _label(cell.status, kind)


def _label(word: str, kind: str) -> str:
    return f'<span class="status {kind}">{word}</span>'


def _findings(report: BuildReport, at: Places) -> Iterator[str]:
    if report.findings:
        yield '<section><h2>Topology files</h2><ul class="attention">'
        for finding in report.findings:
            where = f"{at.shown(finding.file)}:{finding.line}:{finding.column}"
            said = one_line(f"{where}: {finding.severity} {finding.code}: {finding.message}")
            yield f"<li>{text_markup(said)} <span>{text_markup(one_line(finding.help))}</span></li>"
        yield "</ul></section>"
    yield "</main>"


def _hash(source: str) -> str:
    return f"'sha256-{b64encode(sha256(source.encode()).digest()).decode('ascii')}'"


def _source(name: str) -> str:
    """A file of this package, with the line ends that a browser sees."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8").replace("\r\n", "\n")
