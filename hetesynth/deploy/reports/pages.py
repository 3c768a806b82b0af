"""A folder of HTML pages: an index of all cells and a report for each, made of the deployed files.

In: a ``BuildReport``, its manifest, a folder. Out: ``index.html`` and ``cells/*.html`` in it. A page is kept while
its program, its cluster and the compiler are the same; every page appears whole, the index last.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hetesynth.deploy.build import load_clusters
from hetesynth.deploy.folder.folder import place
from hetesynth.deploy.job import unpickled, versions
from hetesynth.deploy.manifest.values import Manifest
from hetesynth.deploy.outcome import BuildReport, CellReport
from hetesynth.deploy.reports.figures import figures
from hetesynth.deploy.reports.index_page import index_page
from hetesynth.deploy.reports.options import INDEX_PAGE
from hetesynth.deploy.reports.places import Places
from hetesynth.engine.formats import SCHEDULE_SUFFIX
from hetesynth.engine.predictors import CostOptions, sizes_between
from hetesynth.errors import HetesynthError
from hetesynth.files.atomic import write_atomically
from hetesynth.files.regular_files import open_regular
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.processes import side_by_side

CELLS = "cells"
SMALLEST, LARGEST = 1_000, 4_000_000_000  # bytes, between which curves are drawn
MAX_SLUG = 80
_MARK = "<!-- hetesynth page {} -->\n"
_MARK_BYTES = len(_MARK.format("0" * 64))


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
    key: str = ""


def write_pages(folder: Path, report: BuildReport, manifest: Manifest, at: Places, jobs: int) -> None:
    """Make what is not there, then the index. A cell whose page cannot be made has the reason in its row."""
    cells = folder / CELLS
    try:
        cells.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HetesynthError(
            f"cannot make {cells}: {error.strerror}", code="HS857", help="give a folder that can be written"
        ) from error
    pages = page_jobs(folder, report, manifest)
    stale = [job for job in pages.values() if not _is_current(job)]
    reasons = dict(_made(stale, jobs))
    links = {name: f"{CELLS}/{job.page.name}" for name, job in pages.items() if job.page.name not in reasons}
    notes = {name: reasons[job.page.name] for name, job in pages.items() if job.page.name in reasons}
    write_atomically(folder / INDEX_PAGE, index_page(report, at, links, notes))
    _drop_others(cells, {Path(link).name for link in links.values()})


def page_jobs(folder: Path, report: BuildReport, manifest: Manifest) -> dict[str, PageJob]:
    """The page of each cell that stands in its folder, by the name of the cell."""
    clusters = load_clusters(manifest)
    jobs = {}
    for cell in report.cells:
        at = figures(cell.record)
        name = None if at is None or cell.record is None else _program(cell.record, at.size)
        if at is None or name is None or cell.record is None:
            continue
        cluster = clusters[cell.cell.cluster]
        program = manifest.folder(cell.cell.cluster, cell.cell.target) / place(name)
        content = {
            "program": cell.record["files"][name], "topology": cluster.sha256, "title": cell.cell.name,
            "size": at.size, "verdict": _verdict(cell.record, at.size), "versions": versions(),
            "runtime_costs": cell.cell.options.runtime_costs,
        }  # fmt: skip
        key = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        jobs[cell.cell.name] = PageJob(
            folder / CELLS / page_name(cell), program, cell.cell.name, at.size, content["verdict"],
            content["runtime_costs"], cluster.pickled, key,
        )  # fmt: skip
    return jobs


def page_name(report: CellReport) -> str:
    """The file name of the page: readable, and no two cells have the same."""
    name = report.cell.name
    plain = "".join(c if c.isascii() and (c.isalnum() or c in ".-") else "-" for c in name)
    return f"{plain.strip('.-')[:MAX_SLUG]}-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}.html"


def _program(record: Mapping[str, Any], size: int) -> str | None:
    """The program of a cell that runs out of place for ``size`` bytes, or any where the record does not say which;
    None: there is none."""
    rows = [row for row in record.get("sizes", ()) if isinstance(row, dict) and row.get("size") == size]
    stated, names = rows[0].get("program", "") if rows else "", record.get("files")
    for name in names if isinstance(names, dict) else ():
        is_program = not name.endswith(SCHEDULE_SUFFIX) and ".inplace." not in name and Path(name).name == name
        if is_program and stated in ("", name):
            return str(name)
    return None


def _verdict(record: Mapping[str, Any], size: int) -> str:
    lines = [row.get("verdict") for row in record["sizes"] if isinstance(row, dict) and row.get("size") == size]
    return next((line for line in lines if isinstance(line, str)), "")


def _is_current(job: PageJob) -> bool:
    """Whether the page is there: its end says of what it was made."""
    return _end(job.page) == _MARK.format(job.key)


def _end(page: Path) -> str:
    try:
        with open_regular(page) as file:
            file.seek(max(0, page.stat().st_size - _MARK_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _made(stale: Sequence[PageJob], jobs: int) -> Iterator[tuple[str, str]]:
    """The name of each page that could not be made, and why."""
    if not stale:
        return
    reasons = _reasons(stale, min(jobs, len(stale)))
    yield from ((job.page.name, reason) for job, reason in zip(stale, reasons, strict=True) if reason)


def _reasons(stale: Sequence[PageJob], processes: int) -> list[str]:
    if processes == 1:
        return [make_page(job) for job in stale]
    try:
        return list(side_by_side(make_page, stale, processes))
    except BrokenProcessPool as error:
        raise HetesynthError(
            "a process that makes pages was killed", code="HS857", help="start again: those made are kept"
        ) from error


def make_page(job: PageJob) -> str:
    """Write the page; why it cannot be made, or nothing. Runs in a process of its own."""
    from hetesynth.engine.page.report import report_of_file
    from hetesynth.report.html.page import html_page

    cluster = unpickled(job.topology)
    sizes = tuple(sorted({*sizes_between(SMALLEST, LARGEST), job.size}))
    costs = CostOptions(runtime=NCCL_TABLES if job.runtime_costs else None)
    try:
        shown = report_of_file(
            job.program, cluster, sizes, costs,
            shown=job.size, title=job.title, verdict=job.verdict,
        )  # fmt: skip
    except HetesynthError as error:
        job.page.unlink(missing_ok=True)
        return f"{error.code}: {error.message}"
    write_atomically(job.page, html_page(shown) + _MARK.format(job.key).encode())
    return ""


def _drop_others(cells: Path, names: set[str]) -> None:
    """Pages of ours that no cell has any more."""
    for page in sorted(cells.glob("*.html")):
        if page.name not in names and _end(page).startswith("<!-- hetesynth page "):
            page.unlink(missing_ok=True)
