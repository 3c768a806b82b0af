"""A folder of HTML pages: an index of all cells and a report for each, made of the deployed files."""

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from html import escape
from importlib.resources import files
from itertools import zip_longest
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import quote

from hetesynth.deploy.build import load_clusters
from hetesynth.deploy.folder.folder import place
from hetesynth.deploy.job import unpickled, versions
from hetesynth.deploy.manifest.values import Manifest
from hetesynth.deploy.outcome import BuildReport
from hetesynth.deploy.reports import words
from hetesynth.engine.formats import SCHEDULE_SUFFIX
from hetesynth.engine.predictors import CostOptions, sizes_between
from hetesynth.errors import HetesynthError
from hetesynth.files.atomic import write_atomically
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.processes import side_by_side

INDEX_PAGE = "index.html"
CELLS = "cells"
SMALLEST, LARGEST = 1_000, 4_000_000_000  # bytes, between which curves are drawn
_PAGE = re.compile(r"[A-Za-z0-9.-]{1,80}-[0-9a-f]{16}\.html")  # as they are called


def index_page(report: BuildReport, at: words.Places, links: Mapping[str, str], notes: Mapping[str, str]) -> bytes:
    """Return the index page. ``links``: to cells' pages, from its folder; ``notes``: why a cell has no page."""
    parts = (INDEX_PAGE, "index.css", "index.js")
    page, style, script = (files(__package__).joinpath(name).read_text("utf-8") for name in parts)
    hashes = (f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in (script, style))
    policy = "default-src 'none'; script-src {}; style-src {}; base-uri 'none'; form-action 'none'"
    doctype, mark, *lines = page.splitlines()
    text = Template("".join(map(str.strip, lines))).substitute(
        policy=policy.format(*hashes),
        title=_html(at.manifest),
        good="good" if report.ok and not report.interrupted else "bad",
        heading=_html(words.heading(report)),
        counts=_html(words.counts_text(report)),
        warnings="".join(f"<p>Warning: {_html(warning)}</p>" for warning in report.warnings),
        tables="".join(_section(table, links, notes) for table in words.sections(report, at)),
        style=style,
        script=script,
    )
    return f"{doctype}\n{mark}\n{text}\n".encode()


def _section(table: words.Section, links: Mapping[str, str], notes: Mapping[str, str]) -> str:
    rows, number = [], ' class="number"' if table.keys else ""
    for texts, name in zip_longest(table.rows, table.keys, fillvalue=""):
        first, status, *others = map(_html, texts)
        first = f'<a href="{quote(links[name])}">{first}</a>' if name in links else first
        first += f"<small> no page: {_html(notes[name])}</small>" if name in notes else ""
        kind = "kept" if status in ("kept", "note") else "bad" if status in words.ATTENTION else "good"
        key = (
            f' data-key="{escape(f"{words.markup(name)} {status}").lower()}"' if name else ""
        )  # what the filter looks at
        state = f'<td><span class="status {kind}">{status}</span></td>'
        columns = "".join(f"<td{number}>{text}</td>" for text in others)
        rows.append(f'<tr{key}><th scope="row">{first}</th>{state}{columns}</tr>')
    heads = "".join(f'<th scope="col">{name}</th>' for name in table.head)
    body = f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    kind = "group" if table.keys else "said"
    return f'<section class="{kind}"><h2>{_html(table.title)}</h2><div class="scroll">{body}</div></section>'


def _html(text: str) -> str:
    return escape(words.markup(text), quote=False)


PageJob = tuple[Path, Path, bytes, dict[str, Any]]
"""A page to be made: its path, the path of its program, the pickled cluster, and its other contents."""


def write_pages(folder: Path, report: BuildReport, manifest: Manifest, at: words.Places, jobs: int) -> None:
    """Make the pages that are missing, then the index, which says for a cell without a page why it has none."""
    cells = folder / CELLS
    try:
        cells.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        help_ = "give a folder that can be written"
        raise HetesynthError(f"cannot make {cells}: {error.strerror}", code="HS857", help=help_) from error
    pages, clusters = dict[str, PageJob](), load_clusters(manifest)
    for cell in report.cells:
        record, shown_at = cell.record, words.figures(cell.record)
        name = None if record is None or shown_at is None else program_shown(record, shown_at["size"])
        if name is None or record is None or shown_at is None:
            continue
        row = next(row for row in record["sizes"] if row["size"] == shown_at["size"])
        cluster = clusters[cell.cell.cluster]
        content: dict[str, Any] = {
            "title": cell.cell.name,
            "size": shown_at["size"],
            "verdict": row.get("verdict") or "",
            "runtime_costs": cell.cell.options.runtime_costs,
        }
        inputs = {"program": record["files"][name], "topology": cluster.sha256, "versions": versions()}
        key = hashlib.sha256(json.dumps({**content, **inputs}, sort_keys=True).encode()).hexdigest()
        program = manifest.folder(cell.cell.cluster, cell.cell.target) / place(name)
        plain = re.sub(r"[^A-Za-z0-9.-]", "-", cell.cell.name).strip(".-")[:80]
        page = cells / f"{plain or 'cell'}-{key[:16]}.html"
        pages[cell.cell.name] = page, program, cluster.pickled, content
    stale = {name: job for name, job in pages.items() if not job[0].is_file()}
    help_ = "start again: those made are kept"
    killed = HetesynthError("a process that makes pages was killed", code="HS857", help=help_)
    said = side_by_side(make_page, stale.values(), min(jobs, len(stale)), killed=killed)
    notes = {name: reason for name, reason in zip(stale, said, strict=True) if reason}
    links = {name: f"{CELLS}/{job[0].name}" for name, job in pages.items() if name not in notes}
    write_atomically(folder / INDEX_PAGE, index_page(report, at, links, notes))
    names = {Path(link).name for link in links.values()}
    for page in sorted(cells.glob("*.html")):  # pages of ours that no cell has any more
        if page.name not in names and _PAGE.fullmatch(page.name):
            page.unlink(missing_ok=True)


def program_shown(record: Mapping[str, Any], size: int) -> str | None:
    """The program of a cell that runs out of place for ``size`` bytes, or any where the record does not say which;
    None: there is none."""
    stated = next((row.get("program", "") for row in record["sizes"] if row["size"] == size), "")
    programs = (name for name in record["files"] if not name.endswith(SCHEDULE_SUFFIX) and ".inplace." not in name)
    return next((str(name) for name in programs if stated in ("", name)), None)


def make_page(job: PageJob) -> str:
    """Write the page of ``job``; return why that failed, else an empty text. Runs in a process of its own."""
    from hetesynth.engine.page.report import report_of_file
    from hetesynth.report.html.page import html_page

    page, program, topology, content = job
    size, with_costs = content["size"], content["runtime_costs"]
    sizes = tuple(sorted({*sizes_between(SMALLEST, LARGEST), size}))
    costs = CostOptions(runtime=NCCL_TABLES if with_costs else None)
    try:
        told: dict[str, Any] = {"shown": size, "title": content["title"], "verdict": content["verdict"]}
        shown = report_of_file(program, unpickled(topology), sizes, costs, **told)
    except HetesynthError as error:
        page.unlink(missing_ok=True)
        return f"{error.code}: {error.message}"
    write_atomically(page, html_page(shown))
    return ""
