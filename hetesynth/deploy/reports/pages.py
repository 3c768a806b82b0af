"""A folder of HTML pages: an index of all cells and a report for each, made of the deployed files."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from hetesynth.deploy.build import load_clusters
from hetesynth.deploy.folder.folder import place
from hetesynth.deploy.job import unpickled, versions
from hetesynth.deploy.manifest.values import Manifest
from hetesynth.deploy.outcome import BuildReport, CellReport
from hetesynth.deploy.reports.words import (
    ATTENTION,
    Places,
    Section,
    counts_text,
    figures,
    heading,
    markup,
    sections,
)
from hetesynth.engine.formats import SCHEDULE_SUFFIX
from hetesynth.engine.predictors import CostOptions, sizes_between
from hetesynth.errors import HetesynthError
from hetesynth.files.atomic import write_atomically
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.processes import side_by_side

INDEX_PAGE, INDEX_MARK = "index.html", "<!-- hetesynth build index -->"
CELLS = "cells"
SMALLEST, LARGEST = 1_000, 4_000_000_000  # bytes, between which curves are drawn
_PAGE = re.compile(r"[A-Za-z0-9.-]{1,80}-[0-9a-f]{16}\.html")  # as ``page_name`` calls them


def _element(tag: str, *inside: str | ElementTree.Element, **attributes: str) -> ElementTree.Element:
    """An element of a page with what is ``inside``; a text comes before all elements."""
    element = ElementTree.Element(tag, attributes)
    element.text = "".join(one for one in inside if isinstance(one, str))
    element.extend(one for one in inside if not isinstance(one, str))
    return element


def index_page(report: BuildReport, at: Places, links: Mapping[str, str], notes: Mapping[str, str]) -> bytes:
    """The page. ``links``: from the folder of the page; ``notes``: why a cell has none."""
    style, script = (files(__package__).joinpath(name).read_text("utf-8") for name in ("index.css", "index.js"))
    hashes = (f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in (script, style))
    policy = "default-src 'none'; script-src {}; style-src {}; base-uri 'none'; form-action 'none'"

    def row(table: Section, number: int) -> ElementTree.Element:
        texts = table.rows[number]
        first, status = _element("th", scope="row"), texts[1]
        kind = "kept" if status in ("kept", "note") else "bad" if status in ATTENTION else "good"
        columns = [_element("td", markup(text), **{"class": "number"} if table.keys else {}) for text in texts[2:]]
        line = _element(
            "tr", first, _element("td", _element("span", markup(status), **{"class": f"status {kind}"})), *columns
        )
        name = table.keys[number] if table.keys else ""
        if name in links:
            first.append(_element("a", markup(texts[0]), href=quote(links[name])))
        else:
            first.text = markup(texts[0])
        if name in notes:
            first.append(_element("small", f" no page: {markup(notes[name])}"))
        if table.keys:  # what the filter looks at
            line.set("data-key", markup(f"{name} {status}").lower())
        return line

    body = _element("main")
    for table in sections(report, at):
        heads = _element("tr", *(_element("th", name, scope="col") for name in table.head))
        rows = (row(table, number) for number in range(len(table.rows)))
        inside = _element(
            "div", _element("table", _element("thead", heads), _element("tbody", *rows)), **{"class": "scroll"}
        )
        body.append(
            _element(
                "section",
                _element("h2", markup(table.title)),
                inside,
                **{"class": "group" if table.keys else "said"},
            )
        )
    good = "good" if report.ok and not report.interrupted else "bad"
    title = markup(at.manifest)
    page = _element(
        "html",
        _element(
            "head",
            _element("meta", charset="utf-8"),
            _element("meta", **{"http-equiv": "Content-Security-Policy", "content": policy.format(*hashes)}),
            _element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            _element("meta", name="color-scheme", content="light dark"),
            _element("title", f"{title}: schedules"),
            _element("style", style),
        ),
        _element(
            "body",
            _element("h1", title),
            _element("p", heading(report), **{"class": f"verdict {good}"}),
            _element("p", counts_text(report)),
            *(_element("p", f"Warning: {markup(warning)}") for warning in report.warnings),
            _element(
                "p",
                _element(
                    "label",
                    "Show ",
                    _element("input", id="filter", type="search", placeholder="a cluster, a target, a status"),
                ),
                _element("span", id="shown", role="status"),
            ),
            body,
            _element("script", script),
        ),
        lang="en",
    )
    text: bytes = ElementTree.tostring(page, encoding="utf-8", method="html")
    return f"<!doctype html>\n{INDEX_MARK}\n".encode() + text + b"\n"


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
        page = cells / page_name(cell, key)
        pages[cell.cell.name] = PageJob(page, program, topology=cluster.pickled, **content)
    stale = [job for job in pages.values() if not job.page.is_file()]
    help_ = "start again: those made are kept"
    killed = HetesynthError("a process that makes pages was killed", code="HS857", help=help_)
    said = side_by_side(make_page, stale, min(jobs, len(stale)), killed=killed)
    notes = {job.title: reason for job, reason in zip(stale, said, strict=True) if reason}
    links = {name: f"{CELLS}/{job.page.name}" for name, job in pages.items() if name not in notes}
    write_atomically(folder / INDEX_PAGE, index_page(report, at, links, notes))
    names = {Path(link).name for link in links.values()}
    for page in sorted(cells.glob("*.html")):  # pages of ours that no cell has any more
        if page.name not in names and _PAGE.fullmatch(page.name):
            page.unlink(missing_ok=True)


def page_name(report: CellReport, key: str) -> str:
    """The file name of the page of what has this ``key``: readable, and no two pages have the same."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in ".-") else "-" for c in report.cell.name)
    return f"{plain.strip('.-')[:80] or 'cell'}-{key[:16]}.html"


def program_shown(record: Mapping[str, Any], size: int) -> str | None:
    """The program of a cell that runs out of place for ``size`` bytes, or any where the record does not say which;
    None: there is none."""
    stated = next((row.get("program", "") for row in record["sizes"] if row["size"] == size), "")
    programs = (name for name in record["files"] if not name.endswith(SCHEDULE_SUFFIX) and ".inplace." not in name)
    return next((str(name) for name in programs if stated in ("", name)), None)


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
    write_atomically(job.page, html_page(shown))
    return ""
