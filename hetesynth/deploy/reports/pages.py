"""A folder of HTML pages: an index of all cells and a report for each, made of the deployed files."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hetesynth.deploy.build import load_clusters
from hetesynth.deploy.folder.folder import place
from hetesynth.deploy.job import unpickled, versions
from hetesynth.deploy.manifest.values import Manifest
from hetesynth.deploy.outcome import BuildReport, CellReport
from hetesynth.deploy.reports.words import (
    ATTENTION,
    SHOWN_PERCENT,
    WAYS_OUT,
    Places,
    cell_name,
    change_percent,
    counts,
    figures,
    groups,
    needing_attention,
    one_line,
    percent_text,
    reason,
    shown,
    verdict,
)
from hetesynth.engine.formats import SCHEDULE_SUFFIX
from hetesynth.engine.predictors import CostOptions, sizes_between
from hetesynth.errors import HetesynthError
from hetesynth.files.atomic import write_atomically
from hetesynth.files.regular_files import open_regular
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.model.words import counted
from hetesynth.processes import side_by_side
from hetesynth.report.size_plot import text_markup

MAX_BARS = 20
ROW, BAR, NAMES, SIDE, VALUE = 22, 12, 330, 150, 70
LONGEST_NAME = 46
INDEX_PAGE, INDEX_MARK = "index.html", "<!-- hetesynth build index -->"
_HEADS = ("Cell", "Status", "Program", "At", "Of the limit", "x library", "Last run")
CELLS = "cells"
SMALLEST, LARGEST = 1_000, 4_000_000_000  # bytes, between which curves are drawn
MAX_SLUG = 80
_MARK = "<!-- hetesynth page {} -->\n"
_MARK_BYTES = len(_MARK.format("0" * 64))


def change_chart(cells: Sequence[CellReport]) -> str:
    """A bar for each of the largest changes: to the left quicker, to the right slower."""
    compared = [(change, cell) for cell in cells if (change := change_percent(cell)) is not None]
    changed = sorted((c for c in compared if abs(c[0]) >= SHOWN_PERCENT), key=lambda pair: -abs(pair[0]))
    if not compared:
        return "<p>No program is compared: there was no last run.</p>"
    if not changed:
        return f"<p>No program takes another time than in the last run ({counted(len(compared), 'cell')}).</p>"
    bars = changed[:MAX_BARS]
    more = f" The {MAX_BARS} largest of {len(changed)}." if len(changed) > len(bars) else ""
    same = len(compared) - len(changed)
    width, height = NAMES + 2 * (SIDE + VALUE), ROW * len(bars) + 8
    scale = SIDE / max(abs(change) for change, _ in bars)
    middle = NAMES + SIDE + VALUE
    rows = []
    for k, (change, cell) in enumerate(bars):
        length, y = max(1.0, abs(change) * scale), k * ROW + 4
        quicker, percent = change < 0, percent_text(change)
        x, at = (middle - length, middle - length - 6) if quicker else (middle, middle + length + 6)
        name = one_line(cell.cell.name)
        short = name if len(name) <= LONGEST_NAME else f"...{name[3 - LONGEST_NAME :]}"
        rows.append(
            f'<g><title>{text_markup(name)}: {percent}</title><text class="name" x="{NAMES - 8}" '
            f'y="{y + BAR}">{text_markup(short)}</text><rect class="{"quicker" if quicker else "slower"}" '
            f'x="{x:.1f}" y="{y + 1}" width="{length:.1f}" height="{BAR}"/><text class="value" x="{at:.1f}" '
            f'y="{y + BAR}" text-anchor="{"end" if quicker else "start"}">{percent}</text></g>'
        )
    return (
        f'<figure><svg viewBox="0 0 {width} {height}" role="img" aria-label="Change of the program time by cell">'
        f'<line class="axis" x1="{middle}" x2="{middle}" y1="0" y2="{height}"/>{"".join(rows)}</svg>'
        f"<figcaption>Program time against the last run: quicker to the left, slower to the right. "
        f"{same} of {len(compared)} are the same.{more}</figcaption></figure>"
    )


def index_page(report: BuildReport, at: Places, links: Mapping[str, str], notes: Mapping[str, str]) -> bytes:
    """The page. ``links``: from the folder of the page; ``notes``: why a cell has none."""
    style, script = _source("index.css"), _source("index.js")
    policy = f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; base-uri 'none'"
    head = (
        f'<!doctype html>\n{INDEX_MARK}\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}; form-action \'none\'">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{text_markup(one_line(at.manifest))}: schedules</title>\n"
        f"<style>{style}</style>\n</head>\n<body>\n"
    )
    good = report.ok and not report.interrupted
    pairs = [("cells", len(report.cells)), *counts(report).items()]
    facts = "".join(f"<div><dt>{name}</dt><dd>{number}</dd></div>" for name, number in pairs)
    lines = [
        f"<header><h1>{text_markup(one_line(at.manifest))}</h1>",
        f'<p class="verdict {"good" if good else "bad"}">'
        f"Schedules {'checked' if report.checked else 'built'}: {verdict(report)}</p>",
        "".join(f"<p>Warning: {text_markup(one_line(warning))}</p>" for warning in report.warnings),
        f'<dl class="facts">{facts}</dl></header>',
        f"<main><section><h2>Since the last run</h2>{change_chart(report.cells)}</section>",
    ]
    rows = []
    for cell in needing_attention(report):
        why = reason(cell)
        rows.append(
            f"<li>{_status(cell)} <strong>{text_markup(one_line(cell.cell.name))}</strong>"
            f"{': ' if why else ''}{text_markup(why)} <span>{text_markup(WAYS_OUT[cell.status])}</span></li>"
        )
    lines += _section("Needs attention", rows)
    rows = []
    for folder in report.folders:
        status = _label("stale", "bad") if folder.stale else _label("note", "kept")
        name, message = text_markup(one_line(at.shown(folder.folder))), text_markup(one_line(folder.message))
        rows.append(f"<li>{status} <strong>{name}</strong>: {message}</li>")
    lines += _section("Folders", rows)
    lines.append('<section><h2>All cells</h2><p><label>Show <input id="filter" type="search" ')
    lines.append('placeholder="a cluster, a target, a status"></label> <span id="shown" role="status"></span></p>')
    heads = "".join(f'<th scope="col"{_right(k)}>{name}</th>' for k, name in enumerate(_HEADS))
    for (cluster, target), cells in groups(report).items():
        lines.append(
            f'<div class="group"><h3>{text_markup(one_line(f"{cluster}, {target}"))}</h3><div class="scroll">'
        )
        lines.append(f"<table><thead><tr>{heads}</tr></thead><tbody>")
        for cell in cells:
            figure, first = shown(cell), text_markup(one_line(cell_name(cell)))
            if link := links.get(cell.cell.name):
                first = f'<a href="{text_markup(quote(link))}">{first}</a>'
            if note := notes.get(cell.cell.name):
                first += f"<br><small>no page: {text_markup(one_line(note))}</small>"
            numbers = (figure.time, figure.size, figure.percent, figure.factor, figure.change)
            columns = "".join(f"<td{_right(k)}>{text_markup(value)}</td>" for k, value in enumerate(numbers, 2))
            key = text_markup(one_line(f"{cell.cell.name} {cell.status}").lower())
            lines.append(
                f'<tr data-key="{key}"><th scope="row">{first}</th><td>{_status(cell)}</td>{columns}</tr>'
            )
        lines.append("</tbody></table></div></div>")
    lines.append("</section>")
    rows = []
    for finding in report.findings:
        where = f"{at.shown(finding.file)}:{finding.line}:{finding.column}"
        said = one_line(f"{where}: {finding.severity} {finding.code}: {finding.message}")
        rows.append(f"<li>{text_markup(said)} <span>{text_markup(one_line(finding.help))}</span></li>")
    lines += [*_section("Topology files", rows), "</main>"]
    body = "\n".join(lines)
    return f"{head}{body}\n<script>{script}</script>\n</body>\n</html>\n".encode()


def _section(title: str, rows: Sequence[str]) -> list[str]:
    """A list under its title; nothing where it has no rows."""
    if not rows:
        return []
    return [f'<section><h2>{title}</h2><ul class="attention">', *rows, "</ul></section>"]


def _right(column: int) -> str:
    return ' class="number"' if column > 1 else ""


def _status(cell: CellReport) -> str:
    kind = "kept" if cell.status == "kept" else "bad" if cell.status in ATTENTION else "good"
    return _label(cell.status, kind)


def _label(word: str, kind: str) -> str:
    return f'<span class="status {kind}">{word}</span>'


def _hash(source: str) -> str:
    return f"'sha256-{b64encode(sha256(source.encode()).digest()).decode('ascii')}'"


def _source(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8").replace("\r\n", "\n")


@dataclass(frozen=True, slots=True)
class PageJob:
    """A page to be made. ``page``: where; ``program``: of what; ``topology``: the pickled cluster."""

    page: Path
    program: Path
    title: str
    size: int
    verdict: str
    runtime_costs: bool
    topology: bytes = field(repr=False)
    key: str


def write_pages(folder: Path, report: BuildReport, manifest: Manifest, at: Places, jobs: int) -> None:
    """Make what is not there, then the index. A cell whose page cannot be made has the reason in its row."""
    cells = folder / CELLS
    try:
        cells.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        help_ = "give a folder that can be written"
        raise HetesynthError(f"cannot make {cells}: {error.strerror}", code="HS857", help=help_) from error
    pages, clusters = dict[str, PageJob](), load_clusters(manifest)
    for cell in report.cells:
        record, shown_at = cell.record, figures(cell.record)
        name = None if record is None or shown_at is None else program_shown(record, shown_at.size)
        if name is None or record is None or shown_at is None:
            continue
        row = next(row for row in record["sizes"] if row["size"] == shown_at.size)
        cluster = clusters[cell.cell.cluster]
        content: dict[str, Any] = {
            "title": cell.cell.name,
            "size": shown_at.size,
            "verdict": row.get("verdict") or "",
            "runtime_costs": cell.cell.options.runtime_costs,
        }
        inputs = {"program": record["files"][name], "topology": cluster.sha256, "versions": versions()}
        key = hashlib.sha256(json.dumps({**content, **inputs}, sort_keys=True).encode()).hexdigest()
        program = manifest.folder(cell.cell.cluster, cell.cell.target) / place(name)
        page = cells / page_name(cell)
        pages[cell.cell.name] = PageJob(page, program, topology=cluster.pickled, key=key, **content)
    stale = [job for job in pages.values() if _end(job.page) != _MARK.format(job.key)]
    help_ = "start again: those made are kept"
    killed = HetesynthError("a process that makes pages was killed", code="HS857", help=help_)
    said = side_by_side(make_page, stale, min(jobs, len(stale)), killed=killed)
    reasons = {job.page.name: reason for job, reason in zip(stale, said, strict=True) if reason}
    links = {name: f"{CELLS}/{job.page.name}" for name, job in pages.items() if job.page.name not in reasons}
    notes = {name: reasons[job.page.name] for name, job in pages.items() if job.page.name in reasons}
    write_atomically(folder / INDEX_PAGE, index_page(report, at, links, notes))
    names = {Path(link).name for link in links.values()}
    for page in sorted(cells.glob("*.html")):  # pages of ours that no cell has any more
        if page.name not in names and _end(page).startswith("<!-- hetesynth page "):
            page.unlink(missing_ok=True)


def page_name(report: CellReport) -> str:
    """The file name of the page: readable, and no two cells have the same."""
    name = report.cell.name
    plain = "".join(c if c.isascii() and (c.isalnum() or c in ".-") else "-" for c in name)
    return f"{plain.strip('.-')[:MAX_SLUG]}-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}.html"


def program_shown(record: Mapping[str, Any], size: int) -> str | None:
    """The program of a cell that runs out of place for ``size`` bytes, or any where the record does not say which;
    None: there is none."""
    stated = next((row.get("program", "") for row in record["sizes"] if row["size"] == size), "")
    programs = (name for name in record["files"] if not name.endswith(SCHEDULE_SUFFIX) and ".inplace." not in name)
    return next((str(name) for name in programs if stated in ("", name)), None)


def _end(page: Path) -> str:
    """The end of a page, which says of what it was made."""
    try:
        with open_regular(page) as file:
            file.seek(max(0, page.stat().st_size - _MARK_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def make_page(job: PageJob) -> str:
    """Write the page; why it cannot be made, or nothing. Runs in a process of its own."""
    from hetesynth.engine.page.report import report_of_file
    from hetesynth.report.html.page import html_page

    cluster = unpickled(job.topology)
    sizes = tuple(sorted({*sizes_between(SMALLEST, LARGEST), job.size}))
    costs = CostOptions(runtime=NCCL_TABLES if job.runtime_costs else None)
    try:
        told: dict[str, Any] = {"shown": job.size, "title": job.title, "verdict": job.verdict}
        shown = report_of_file(job.program, cluster, sizes, costs, **told)
    except HetesynthError as error:
        job.page.unlink(missing_ok=True)
        return f"{error.code}: {error.message}"
    write_atomically(job.page, html_page(shown) + _MARK.format(job.key).encode())
    return ""
